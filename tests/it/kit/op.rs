//! The language of the store's tests: what a program may do, as plain values.
//!
//! Everything is small on purpose: seven scopes, two tables, eight keys, a few sources and ids, so
//! that programs meet their own past all the time. A value stands for what the store is given;
//! the functions here say what, and model and store use the same ones.

/// One step of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// `Scope::insert`.
    Insert(usize, Item),
    /// `Scope::insert_all`.
    InsertAll(usize, Vec<Item>),
    /// A batch with its writes, committed at once.
    Batch(Batch),
    /// A batch whose ids are decided and held; one that was held before is dropped.
    Hold(Vec<(usize, Item)>),
    /// The end of the held batch: what it writes for those that were first, or its drop.
    Finish(Finish),
    /// `Scope::once`.
    Once(usize, Item, Closure),
    /// `Scope::claim`.
    Claim(usize, Item),
    /// The end of the claim of an id that was taken last, or of the one before it.
    End(usize, Name, bool, Ending),
    /// `Scope::redrive`.
    Redrive(usize, Name),
    /// `Scope::purge`.
    Purge(usize, Name),
    /// `Scope::decide`.
    Decide(usize, Name, Deciding),
    /// `Scope::forget`.
    Forget(usize, Name),
    /// `Scope::peek`.
    Peek(usize, Name),
    /// `Scope::scan`, of the ids first seen within the last so many milliseconds.
    Scan(usize, Option<u64>),
    /// `Batch::prepare`, under one of a few names.
    Prepare(u8, Batch),
    /// `Store::commit_prepared`, or `Store::abort_prepared`.
    EndPrepared(u8, bool),
    /// `Store::in_doubt`.
    InDoubt,
    /// `Sequences::admit`.
    Admit(Number),
    /// `Store::drop_sequences`, and a new space of that name.
    DropSequences(usize),
    /// `Outbox::drain`, of so many messages.
    Drain(u8),
    /// `Outbox::ack` of the first so many that wait, so many kept.
    Ack(u8, u8),
    /// `Outbox::rewind` by so many messages.
    Resend(u8),
    /// Everything there is to see: ids, rows, resume points, counts of verdicts.
    Check,
    /// `Store::rewind`.
    Rewind(usize, u64),
    /// `Store::alter_scope`.
    Alter(usize, Keep),
    /// `Store::drop_scope`, and a new scope of that name.
    DropScope(usize, Keep),
    /// `Store::drop_table`, and a new table of that name and kind.
    DropTable(Table),
    /// Time passes, in milliseconds.
    Advance(u64),
    /// `Store::seal`.
    Seal,
    /// `Store::compact`.
    Compact,
    /// A clean close, and an open.
    Reopen,
    /// A kill, and an open. Whatever was buffered is written before, so that the outcome is one.
    Crash,
    /// Maintenance that dies at a point of its way, after so many passes, and an open.
    Dying(u8, u8),
    /// A commit that fails, and then a crash.
    Failing(Failure, Batch),
}

/// What is done with a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Complete(Vec<Write>, u8),
    Retry,
    Fail(u8),
    Release,
    Unknown,
    Renew,
}

/// What is decided about an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deciding {
    Done,
    Failed,
    Retry,
}

/// How long a scope remembers, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    Fixed(u64),
    Sliding(u64, u64),
    Forever,
}

/// What an item's id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// One of the pool.
    Id(u8),
    Missing,
    Empty,
    TooLong,
    /// No id but a sequence number; only in batches. The item's scope says nothing then.
    Sequence(Number),
}

/// A producer's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) space: usize,
    pub(crate) producer: u8,
    pub(crate) epoch: u64,
    pub(crate) n: u64,
}

/// An item, with what its message says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) name: Name,
    pub(crate) remember_ms: Option<u64>,
    pub(crate) also: Option<u8>,
    pub(crate) source: Option<u8>,
    pub(crate) payload: Option<u8>,
    /// The id's own time, where ids have one: so many milliseconds ago, or ahead.
    pub(crate) ago_ms: Option<i64>,
    pub(crate) writes: Vec<Write>,
    pub(crate) if_refused: Option<Vec<Write>>,
    pub(crate) declined: bool,
    pub(crate) results: Results,
}

/// What is stored of a first sight, and of a refused one that has an `if_refused`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Results {
    pub(crate) first: Option<u8>,
    pub(crate) refused: Option<u8>,
}

/// A batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) items: Vec<(usize, Item)>,
    pub(crate) always: Vec<Write>,
    pub(crate) points: Vec<(usize, Point)>,
    pub(crate) level: Option<Level>,
    /// Through `Batch::submit` rather than `Batch::commit`.
    pub(crate) submitted: bool,
}

/// How a held batch ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finish {
    /// Without it the batch is dropped.
    pub(crate) committed: bool,
    /// Given out in turn to the items that were first.
    pub(crate) writes: Vec<Write>,
    /// Given to each item that was first.
    pub(crate) result: Option<u8>,
    pub(crate) points: Vec<(usize, Point)>,
}

/// What a closure does, and how it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closure {
    pub(crate) steps: Vec<Step>,
    pub(crate) if_refused: Option<Vec<Write>>,
    pub(crate) results: Results,
    pub(crate) points: Vec<(usize, Point)>,
    pub(crate) end: End,
}

/// One step of a closure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Get(Table, u8),
    /// Reads a counter and puts what it was plus one.
    Increment(u8),
    Write(Write),
}

/// How a closure ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Ok,
    Decline,
    Fail,
}

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    Plain,
    Guarded,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Put(Table, u8, u8),
    Delete(Table, u8),
    Add(Table, u8, i64, Option<i64>, Option<i64>),
    Transition(Table, u8, u8, u8),
    CompareAndSet(Table, u8, Option<u8>, u8),
    CompareVersion(Table, u8, Option<u64>, u8),
    /// A message through the outbox.
    Send(u8),
}

/// A resume point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    Number(u64),
    Bytes(u8),
}

/// A commit's level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Buffered,
    Written,
    Synced,
}

/// How a commit fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    NotRecorded,
    Lost,
    Written,
}

/// The scopes' names.
pub(crate) const SCOPES: [&str; 7] = [
    "blink",
    "minute",
    "hour",
    "sliding",
    "forever",
    "long-sliding",
    "given",
];
/// How long each remembers at first.
pub(crate) const KEEPS: [Keep; 7] = [
    Keep::Fixed(50),
    Keep::Fixed(3_000),
    Keep::Fixed(3_600_000),
    Keep::Sliding(100, 350),
    Keep::Forever,
    Keep::Sliding(3_000, 10_000),
    Keep::Fixed(2_000),
];
/// The scope whose ids have a time of their own, which their message gives. Late ones are
/// processed.
pub(crate) const GIVEN: usize = 6;
/// How far their time may be ahead, in milliseconds.
pub(crate) const AHEAD_MS: u64 = 100;
/// The scope that keeps sources.
pub(crate) const WITH_SOURCES: usize = 1;
/// The scopes that store results; in others none is given.
pub(crate) const WITH_RESULTS: [usize; 3] = [1, 3, 4];
/// The scopes that compare payloads; in others none is given.
pub(crate) const WITH_PAYLOADS: [usize; 3] = [1, 2, 5];
/// The scope that processes messages without an id.
pub(crate) const UNKEYED: usize = 2;
/// The scope that gives ids up after some attempts.
pub(crate) const LIMITED: usize = 2;
/// How long a claim keeps its id, in milliseconds: no renewal comes within a test's real time.
pub(crate) const LEASE_MS: u64 = 3_600_000;
/// The longest id.
pub(crate) const ID_BYTES_MAX: usize = 48;
/// How many ids there are.
pub(crate) const IDS: u8 = 200;
/// How many keys a table has.
pub(crate) const KEYS: u8 = 9;
/// The sources of resume points.
pub(crate) const SOURCES: [&str; 3] = ["orders/0", "orders/1", "clicks/0"];

/// The spaces of sequences. The second lets no unknown producer in, and takes what is below the
/// window for seen.
pub(crate) const SPACES: [&str; 2] = ["events", "strict"];
/// How many producers each knows.
pub(crate) const PRODUCERS_MAX: [usize; 2] = [3, 10];
/// How many producers there are; one more has no name.
pub(crate) const PRODUCERS: u8 = 5;
/// The window of each.
pub(crate) const WINDOW: u64 = 64;

/// A producer's name.
pub(crate) fn producer(n: u8) -> String {
    if n < PRODUCERS {
        format!("producer-{n}")
    } else {
        String::new()
    }
}

/// The bytes of an id: of several lengths, some like their neighbours.
pub(crate) fn id(n: u8) -> Vec<u8> {
    let mut bytes = format!("id-{n:03}").into_bytes();
    match n % 4 {
        0 => bytes.drain(..3).for_each(drop),
        1 => {}
        2 => bytes.resize(16, b'.'),
        _ => bytes.resize(16 + usize::from(n) % 32, b'.'),
    }
    bytes
}

/// A row's key.
pub(crate) fn key(n: u8) -> String {
    format!("row-{}", n % KEYS)
}

/// A row's value: a counter, or two bytes that are none.
pub(crate) fn value(v: u8) -> Vec<u8> {
    if v < 128 {
        i64::from(v).to_le_bytes().to_vec()
    } else {
        vec![b'v', v]
    }
}

/// A stored result: of several lengths, some longer than all else in a record.
pub(crate) fn result(n: u8) -> Vec<u8> {
    vec![n; usize::from(n) * usize::from(n % 16)]
}

/// A message's body: few, so that they are often the same.
pub(crate) fn payload(n: u8) -> Vec<u8> {
    vec![b'p'; usize::from(n % 3) * 40]
}

/// Where a message comes from.
pub(crate) fn source(n: u8) -> String {
    format!("source-{}", n % 5)
}

impl Item {
    /// An item that says nothing but its id.
    pub(crate) fn plain(name: Name) -> Item {
        Item {
            name,
            remember_ms: None,
            also: None,
            source: None,
            payload: None,
            ago_ms: None,
            writes: Vec::new(),
            if_refused: None,
            declined: false,
            results: Results::default(),
        }
    }
}

impl Table {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Table::Plain => "rows",
            Table::Guarded => "stock",
        }
    }
}

impl Write {
    /// The row that it is of; a message is of none.
    pub(crate) fn place(&self) -> Option<(Table, String)> {
        match *self {
            Write::Send(_) => None,
            Write::Put(table, row, ..)
            | Write::Delete(table, row)
            | Write::Add(table, row, ..)
            | Write::Transition(table, row, ..)
            | Write::CompareAndSet(table, row, ..)
            | Write::CompareVersion(table, row, ..) => Some((table, key(row))),
        }
    }

    /// Whether only a guarded table takes it.
    pub(crate) fn is_conditional(&self) -> bool {
        !matches!(self, Write::Put(..) | Write::Delete(..) | Write::Send(..))
    }

    /// A condition on a plain table.
    pub(crate) fn is_misuse(&self) -> bool {
        self.is_conditional() && self.table() == Table::Plain
    }

    /// The table that it writes to; a message goes to none of them, so any will do.
    pub(crate) fn table(&self) -> Table {
        self.place().map_or(Table::Plain, |place| place.0)
    }
}

impl Batch {
    pub(crate) fn of<'a>(scope: usize, items: impl IntoIterator<Item = &'a Item>) -> Batch {
        let bare = |item: &Item| (scope, item.clone());
        Batch {
            items: items.into_iter().map(bare).collect(),
            ..Batch::default()
        }
    }
}

/// Items without writes, as a batch that holds takes them.
pub(crate) fn bare(items: &[(usize, Item)]) -> Vec<(usize, Item)> {
    let without = |item: &Item| Item {
        writes: Vec::new(),
        if_refused: None,
        results: Results::default(),
        ..item.clone()
    };
    items
        .iter()
        .map(|(scope, item)| (*scope, without(item)))
        .collect()
}

/// Gives writes out in turn to the items that were first.
pub(crate) fn give_out(writes: &[Write], first: &[usize], mut give: impl FnMut(usize, Write)) {
    if first.is_empty() {
        return;
    }
    for (i, write) in writes.iter().enumerate() {
        give(first[i % first.len()], write.clone());
    }
}
