//! Programs from bytes, by `arbitrary`: a property test's seed, a fuzzer's input and a crash
//! test's argument all become programs here, so what one finds the others can replay.
//!
//! The weights make programs that seal, merge and drop within hundreds of steps: few ids asked
//! often, time that moves to the edges of retentions, now and then a reopening.

use arbitrary::{Arbitrary, Result, Unstructured};

use super::op::{
    Batch, Closure, Deciding, End, Ending, Failure, Finish, GIVEN, IDS, Item, Keep, Level, Name,
    Number, Op, PRODUCERS, Point, Results, SCOPES, SOURCES, SPACES, Step, Table, Write,
};

/// The steps that bytes stand for, to their end.
pub(crate) fn program(bytes: &[u8]) -> Vec<Op> {
    let mut input = Unstructured::new(bytes);
    let mut ops = Vec::new();
    while !input.is_empty() {
        // Bytes that ran out give the simplest values, never an error.
        ops.extend(Op::arbitrary(&mut input).ok());
    }
    ops
}

type Input<'a, 'b> = &'b mut Unstructured<'a>;

fn below(u: Input<'_, '_>, n: usize) -> Result<usize> {
    u.int_in_range(0..=n - 1)
}

/// Whether something that happens once in `n` times happens; not when bytes ran out.
fn once_in(u: Input<'_, '_>, n: u8) -> Result<bool> {
    Ok(u.int_in_range(0..=n - 1)? == n - 1)
}

fn several<T>(
    u: Input<'_, '_>,
    most: usize,
    one: impl Fn(Input<'_, '_>) -> Result<T>,
) -> Result<Vec<T>> {
    let count = below(u, most + 1)?;
    (0..count).map(|_| one(u)).collect()
}

fn maybe<T>(
    u: Input<'_, '_>,
    once_in_n: u8,
    one: impl Fn(Input<'_, '_>) -> Result<T>,
) -> Result<Option<T>> {
    once_in(u, once_in_n)?.then(|| one(u)).transpose()
}

impl<'a> Arbitrary<'a> for Op {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Op> {
        let scope = |u: Input<'_, '_>| below(u, SCOPES.len());
        Ok(match u.arbitrary::<u8>()? {
            0..18 => Op::Insert(scope(u)?, bare_item(u)?),
            18..27 => {
                let (scope, name) = claimed(u)?;
                Op::Claim(
                    scope,
                    Item {
                        name,
                        ..bare_item(u)?
                    },
                )
            }
            27..40 => claim_step(u)?,
            40..62 => Op::InsertAll(scope(u)?, several(u, 12, bare_item)?),
            62..110 => Op::Batch(batch(u)?),
            110..118 => two_phase(u)?,
            118..130 => Op::Hold(several(u, 5, |u| Ok((scope(u)?, item(u)?)))?),
            130..144 => Op::Finish(finish(u)?),
            144..168 => Op::Once(scope(u)?, bare_item(u)?, closure(u)?),
            168..182 => Op::Forget(scope(u)?, name(u)?),
            182..192 => Op::Peek(scope(u)?, name(u)?),
            192..195 => Op::Scan(scope(u)?, maybe(u, 2, duration)?),
            195 => Op::Admit(number(u)?),
            196 => match once_in(u, 8)? {
                true => Op::DropSequences(below(u, SPACES.len())?),
                false => Op::Admit(number(u)?),
            },
            197..200 => Op::Check,
            200..203 => Op::Rewind(below(u, SOURCES.len())?, u.int_in_range(0..=60)?),
            203..207 => {
                let scope = scope(u)?;
                Op::Alter(scope, keep_of(u, scope)?)
            }
            207..210 => {
                let scope = scope(u)?;
                Op::DropScope(scope, keep_of(u, scope)?)
            }
            210..212 => Op::DropTable(table(u)?),
            212..235 => Op::Advance(duration(u)?),
            235..238 => Op::Drain(u.int_in_range(0..=9)?),
            238..242 => Op::Ack(u.int_in_range(0..=9)?, u.int_in_range(0..=3)?),
            242 => Op::Resend(u.int_in_range(0..=4)?),
            243..247 => Op::Seal,
            247..249 => Op::Compact,
            249..250 => Op::Reopen,
            250..252 => Op::Crash,
            252..253 => Op::Dying(u.arbitrary()?, u.int_in_range(0..=3)?),
            253.. => {
                let failure = [Failure::NotRecorded, Failure::Lost, Failure::Written];
                Op::Failing(*u.choose(&failure)?, batch(u)?)
            }
        })
    }
}

/// A scope and an id for claims: few, so that they meet their own past, and not those that others
/// record all the time.
fn claimed(u: Input<'_, '_>) -> Result<(usize, Name)> {
    if once_in(u, 4)? {
        return Ok((below(u, SCOPES.len())?, name(u)?));
    }
    Ok((u.int_in_range(2..=3)?, Name::Id(u.int_in_range(28..=30)?)))
}

/// A transaction is prepared, or ended, or one of few names is asked about that has ended.
fn two_phase(u: Input<'_, '_>) -> Result<Op> {
    let txn = u.int_in_range(0..=2)?;
    Ok(match u.int_in_range(0..=15)? {
        0..=5 => Op::Prepare(txn, batch(u)?),
        6..=10 => Op::EndPrepared(txn, true),
        11..=14 => Op::EndPrepared(txn, false),
        _ => Op::InDoubt,
    })
}

/// A step in the later life of a claim.
fn claim_step(u: Input<'_, '_>) -> Result<Op> {
    let (scope, name) = claimed(u)?;
    Ok(match u.int_in_range(0..=15)? {
        0..=3 => {
            let how = Ending::Complete(several(u, 2, write)?, u.arbitrary()?);
            Op::End(scope, name, once_in(u, 5)?, how)
        }
        4..=10 => {
            let how = [
                Ending::Retry,
                Ending::Retry,
                Ending::Fail(u.arbitrary()?),
                Ending::Release,
                Ending::Unknown,
                Ending::Renew,
            ];
            let how = u.choose(&how)?.clone();
            Op::End(scope, name, once_in(u, 5)?, how)
        }
        11..=12 => Op::Redrive(scope, name),
        13 => Op::Purge(scope, name),
        _ => {
            let what = [Deciding::Done, Deciding::Failed, Deciding::Retry];
            Op::Decide(scope, name, *u.choose(&what)?)
        }
    })
}

/// Times at the edges of the retentions there are.
fn duration(u: Input<'_, '_>) -> Result<u64> {
    let edge = |u: Input<'_, '_>, ms: u64| Ok(ms - 1 + u.int_in_range(0..=2)?);
    match u.arbitrary::<u8>()? {
        0..100 => u.int_in_range(0..=30),
        100..130 => edge(u, 50),
        130..160 => edge(u, 100),
        160..180 => u.int_in_range(100..=500),
        180..205 => edge(u, 3_000),
        205..225 => u.int_in_range(0..=12_000),
        225..240 => edge(u, 3_600_000),
        240.. => u.int_in_range(0..=8_000_000),
    }
}

/// Ids with their own time are remembered for a fixed one.
fn keep_of(u: Input<'_, '_>, scope: usize) -> Result<Keep> {
    let keep = keep(u)?;
    Ok(match keep {
        Keep::Fixed(_) => keep,
        _ if scope == GIVEN => Keep::Fixed(2_000),
        _ => keep,
    })
}

fn keep(u: Input<'_, '_>) -> Result<Keep> {
    const KEEPS: [Keep; 9] = [
        Keep::Fixed(50),
        Keep::Fixed(200),
        Keep::Fixed(3_000),
        Keep::Fixed(3_600_000),
        Keep::Sliding(100, 350),
        Keep::Sliding(50, 2_000),
        Keep::Sliding(3_000, 10_000),
        Keep::Forever,
        Keep::Fixed(1),
    ];
    Ok(*u.choose(&KEEPS)?)
}

fn name(u: Input<'_, '_>) -> Result<Name> {
    Ok(match u.arbitrary::<u8>()? {
        0..90 => Name::Id(u.int_in_range(0..=5)?),
        90..180 => Name::Id(u.int_in_range(0..=29)?),
        180..247 => Name::Id(u.int_in_range(0..=IDS - 1)?),
        247..250 => Name::Missing,
        250..253 => Name::Empty,
        253.. => Name::TooLong,
    })
}

/// An item without writes.
fn bare_item(u: Input<'_, '_>) -> Result<Item> {
    const RETENTIONS: [u64; 8] = [1, 10, 60, 150, 400, 2_000, 1_200_000, 7_200_000];
    Ok(Item {
        name: name(u)?,
        remember_ms: maybe(u, 9, |u| Ok(*u.choose(&RETENTIONS)?))?,
        also: maybe(u, 9, |u| u.int_in_range(0..=29))?,
        source: maybe(u, 3, |u| u.arbitrary())?,
        payload: maybe(u, 3, |u| u.arbitrary())?,
        ago_ms: ago(u)?,
        ..Item::plain(Name::Missing)
    })
}

/// Mostly a while ago, at times at the window's edges, or at the end of what may be ahead.
fn ago(u: Input<'_, '_>) -> Result<Option<i64>> {
    Ok(match u.arbitrary::<u8>()? {
        0..8 => None,
        8..160 => Some(u.int_in_range(-100..=1_500)?),
        160..220 => Some(u.int_in_range(1_999..=2_001)?),
        220.. => Some(u.int_in_range(-101..=-99)?),
    })
}

fn item(u: Input<'_, '_>) -> Result<Item> {
    Ok(Item {
        writes: several(u, 3, write)?,
        if_refused: maybe(u, 4, |u| several(u, 2, write))?,
        declined: once_in(u, 16)?,
        results: results(u)?,
        ..bare_item(u)?
    })
}

/// Numbers that mostly rise, of few producers; now and then far out of order.
fn number(u: Input<'_, '_>) -> Result<Number> {
    let space = below(u, SPACES.len())?;
    let producer = match once_in(u, 40)? {
        true => PRODUCERS,
        false => u.int_in_range(0..=PRODUCERS - 1)?,
    };
    let n = match u.arbitrary::<u8>()? {
        0..100 => u.int_in_range(0..=12)?,
        100..180 => u.int_in_range(0..=70)?,
        180..250 => u.int_in_range(60..=200)?,
        250.. => u64::MAX - u.int_in_range(0..=90)?,
    };
    Ok(Number {
        space,
        producer,
        epoch: u.int_in_range(0..=9)? / 4,
        n,
    })
}

/// An item of a batch: an id, or a sequence number.
fn any_item(u: Input<'_, '_>) -> Result<Item> {
    let item = item(u)?;
    Ok(match once_in(u, 3)? {
        true => Item {
            name: Name::Sequence(number(u)?),
            writes: item.writes,
            if_refused: item.if_refused,
            declined: item.declined,
            ..Item::plain(Name::Missing)
        },
        false => item,
    })
}

fn batch(u: Input<'_, '_>) -> Result<Batch> {
    Ok(Batch {
        items: several(u, 6, |u| Ok((below(u, SCOPES.len())?, any_item(u)?)))?,
        always: maybe(u, 6, |u| several(u, 2, unconditional))?.unwrap_or_default(),
        points: maybe(u, 4, |u| several(u, 2, point))?.unwrap_or_default(),
        level: maybe(u, 3, level)?,
        submitted: once_in(u, 8)?,
    })
}

fn finish(u: Input<'_, '_>) -> Result<Finish> {
    Ok(Finish {
        committed: !once_in(u, 4)?,
        writes: several(u, 4, write)?,
        result: maybe(u, 3, |u| u.arbitrary())?,
        points: maybe(u, 4, |u| several(u, 1, point))?.unwrap_or_default(),
    })
}

fn closure(u: Input<'_, '_>) -> Result<Closure> {
    let step = |u: Input<'_, '_>| {
        Ok(match u.int_in_range(0..=5)? {
            0 => Step::Get(table(u)?, u.arbitrary()?),
            1 | 2 => Step::Increment(u.int_in_range(0..=2)?),
            _ => Step::Write(write(u)?),
        })
    };
    let mut closure = Closure {
        steps: several(u, 4, step)?,
        if_refused: maybe(u, 4, |u| several(u, 2, unconditional))?,
        results: results(u)?,
        points: maybe(u, 6, |u| several(u, 1, point))?.unwrap_or_default(),
        end: *u.choose(&[
            End::Ok,
            End::Ok,
            End::Ok,
            End::Ok,
            End::Ok,
            End::Decline,
            End::Fail,
        ])?,
    };
    if closure.end == End::Decline {
        // What a refused closure that also declines should do is nobody's business.
        closure
            .steps
            .retain(|s| !matches!(s, Step::Write(w) if w.is_conditional()));
    }
    Ok(closure)
}

fn results(u: Input<'_, '_>) -> Result<Results> {
    Ok(Results {
        first: maybe(u, 3, |u| u.arbitrary())?,
        refused: maybe(u, 3, |u| u.arbitrary())?,
    })
}

fn point(u: Input<'_, '_>) -> Result<(usize, Point)> {
    let next = match u.int_in_range(0..=15)? {
        0_u8 => Point::Bytes(u.arbitrary()?),
        _ => Point::Number(u.int_in_range(0..=60)?),
    };
    Ok((below(u, SOURCES.len())?, next))
}

fn level(u: Input<'_, '_>) -> Result<Level> {
    Ok(*u.choose(&[Level::Buffered, Level::Written, Level::Synced])?)
}

fn table(u: Input<'_, '_>) -> Result<Table> {
    Ok(*u.choose(&[Table::Plain, Table::Guarded])?)
}

fn unconditional(u: Input<'_, '_>) -> Result<Write> {
    // One in many is misuse: a condition where none may be.
    if once_in(u, 48)? {
        return Ok(Write::Add(table(u)?, u.arbitrary()?, 1, None, None));
    }
    if once_in(u, 4)? {
        return Ok(Write::Send(u.arbitrary()?));
    }
    let (table, key) = (table(u)?, u.arbitrary()?);
    Ok(match once_in(u, 4)? {
        true => Write::Delete(table, key),
        false => Write::Put(table, key, u.arbitrary()?),
    })
}

/// A write. Keys 0 to 2 are mostly counters, 3 to 5 states, 6 to 8 versioned.
fn write(u: Input<'_, '_>) -> Result<Write> {
    let kind: u8 = u.int_in_range(0..=9)?;
    if kind < 3 {
        return unconditional(u);
    }
    // A condition on a plain table is misuse.
    let table = if once_in(u, 64)? {
        Table::Plain
    } else {
        Table::Guarded
    };
    let stray = once_in(u, 24)?;
    let key = |u: Input<'_, '_>, first: u8| {
        if stray {
            u.arbitrary()
        } else {
            u.int_in_range(first..=first + 2)
        }
    };
    let state = |u: Input<'_, '_>| u.int_in_range(128..=130);
    Ok(match kind {
        3..6 => {
            let by = u.int_in_range(-4..=6)?;
            Write::Add(
                table,
                key(u, 0)?,
                by,
                maybe(u, 2, |_| Ok(0))?,
                maybe(u, 4, |_| Ok(12))?,
            )
        }
        6 => Write::Transition(table, key(u, 3)?, state(u)?, state(u)?),
        7 => Write::CompareAndSet(table, key(u, 3)?, maybe(u, 2, state)?, state(u)?),
        _ => {
            let expected = maybe(u, 2, |u| u.int_in_range(0..=3))?;
            Write::CompareVersion(table, key(u, 6)?, expected, u.arbitrary()?)
        }
    })
}
