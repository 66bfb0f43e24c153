//! Producers that number their messages: who sent it, and the policy of a space of sequences.

use crate::error::{Error, Result};
use crate::key::Key;

/// The longest name of a producer, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 512;

/// Whether a window may have so many bits.
pub(crate) fn is_window(bits: usize) -> bool {
    bits.is_power_of_two() && (64..=4096).contains(&bits)
}

/// Who numbered a message.
///
/// The epoch tells apart the runs of one producer: each run that begins its numbers anew takes a
/// higher one, and whoever still sends under a lower one is fenced. Producers that never do may
/// keep one epoch for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer<'a> {
    /// Its name, unique within the space: 1 to 512 bytes.
    pub name: &'a str,
    /// Which run of it.
    pub epoch: u64,
}

/// A broker's partition as a producer: its offsets are the sequence.
///
/// It tells redeliveries apart from new messages in constant space, but not a second send of the
/// same message, which has another offset.
///
/// ```
/// use firstseen::{Key, Partition};
/// let partition = Partition::new("eu-1", "orders", 3);
/// assert_eq!(partition.producer(0).name, "eu-1/orders/3");
/// let key = Key::position("eu-1", "orders", 3, 1_044);
/// assert_eq!(Partition::of(&key), Some((partition, 1_044)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partition(String);

impl Partition {
    /// A partition of a topic of a cluster. Different partitions have different names: bytes
    /// other than letters, digits, `.`, `_` and `-` are written as `%` and two digits.
    #[must_use]
    pub fn new(cluster: impl AsRef<[u8]>, topic: impl AsRef<[u8]>, partition: u32) -> Partition {
        let mut name = String::new();
        for part in [cluster.as_ref(), topic.as_ref()] {
            for &byte in part {
                if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
                    name.push(char::from(byte));
                } else {
                    name.push_str(&format!("%{byte:02x}"));
                }
            }
            name.push('/');
        }
        name.push_str(&partition.to_string());
        Partition(name)
    }

    /// The partition of a key made by [`Key::position`], and its offset.
    #[must_use]
    pub fn of(key: &Key) -> Option<(Partition, u64)> {
        let (cluster, topic, partition, offset) = key.as_position()?;
        Some((Partition::new(cluster, topic, partition), offset))
    }

    /// It as a producer. The epoch: higher whenever its offsets begin anew, as after the topic
    /// was made anew.
    #[must_use]
    pub fn producer(&self, epoch: u64) -> Producer<'_> {
        Producer {
            name: &self.0,
            epoch,
        }
    }
}

/// What is done about a producer that the store does not know: one never seen, or one that was
/// idle for so long that it had to go. The two are not told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnUnknownProducer {
    /// Its number is first seen, and it is known from then on.
    #[default]
    Accept,
    /// The verdict is [`Verdict::UnknownProducer`](crate::Verdict::UnknownProducer), until it is
    /// let in by [`Sequences::admit`](crate::Sequences::admit).
    Refuse,
}

/// What is done about a number below the window of which nobody knows any more whether it was
/// seen: some number behind it left the window unseen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum BelowWindow {
    /// The verdict is [`Verdict::Late`](crate::Verdict::Late): to be set aside. Nothing is lost.
    #[default]
    Refuse,
    /// It is a duplicate. Right where a producer never lets a number come later than the window
    /// is wide; a message that does so all the same is lost.
    Duplicate,
}

/// The policy of a space of sequences.
///
/// The window is stored with the space and can't change; the rest belongs to the handle.
///
/// ```
/// use firstseen::{OnUnknownProducer, SequencePolicy};
/// let policy = SequencePolicy::new().window_bits(256).on_unknown(OnUnknownProducer::Refuse);
/// # let _ = policy;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct SequencePolicy {
    pub(crate) window_bits: usize,
    pub(crate) producers_max: usize,
    pub(crate) on_unknown: OnUnknownProducer,
    pub(crate) below_window: BelowWindow,
}

impl Default for SequencePolicy {
    fn default() -> SequencePolicy {
        SequencePolicy::new()
    }
}

impl SequencePolicy {
    /// A window of 1,024 numbers, 10,000 producers; unknown ones are accepted.
    pub fn new() -> SequencePolicy {
        SequencePolicy {
            window_bits: 1024,
            producers_max: 10_000,
            on_unknown: OnUnknownProducer::default(),
            below_window: BelowWindow::default(),
        }
    }

    /// How far out of order a producer's numbers may come: 64 to 4,096, a power of two; default
    /// 1,024. Costs a bit each, in memory and in each commit of the producer. Stored.
    pub fn window_bits(mut self, bits: usize) -> SequencePolicy {
        self.window_bits = bits;
        self
    }

    /// How many producers are known at a time; 1 to 10,000,000, default 10,000. For one more, the
    /// one goes that recorded something longest ago
    /// ([`SequenceStats::evicted`](crate::SequenceStats::evicted)). All are in memory: some 250
    /// bytes each with the default window.
    pub fn producers_max(mut self, producers: usize) -> SequencePolicy {
        self.producers_max = producers;
        self
    }

    /// What is done about an unknown producer. Default: accept it.
    pub fn on_unknown(mut self, rule: OnUnknownProducer) -> SequencePolicy {
        self.on_unknown = rule;
        self
    }

    /// What is done about a number of which nobody knows any more whether it was seen. Default:
    /// refuse it.
    pub fn below_window(mut self, rule: BelowWindow) -> SequencePolicy {
        self.below_window = rule;
        self
    }

    /// Every violation at once, in one error.
    pub(crate) fn validate(&self, space: &str) -> Result<()> {
        let mut wrong = Vec::new();
        if !is_window(self.window_bits) {
            wrong.push("window_bits must be a power of two from 64 to 4,096");
        }
        if !(1..=10_000_000).contains(&self.producers_max) {
            wrong.push("producers_max must be 1 to 10,000,000");
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let wrong = wrong.join("; ");
        Err(Error::invalid(format!("sequences {space:?}: {wrong}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_partitions_have_different_names() {
        let name = |c: &str, t: &str, p| Partition::new(c, t, p).producer(0).name.to_string();
        assert_eq!(name("eu-1", "orders.v2", 3), "eu-1/orders.v2/3");
        assert_eq!(name("a/b", "c%", 0), "a%2fb/c%25/0");
        assert_ne!(name("a/b", "c", 0), name("a", "b/c", 0));
        assert_ne!(name("", "a", 1), name("a", "", 1));
        assert_eq!(Partition::of(&Key::new("order-17")), None);
    }

    #[test]
    fn all_violations_are_named() {
        let policy = SequencePolicy::new().window_bits(96).producers_max(0);
        let error = policy.validate("s").unwrap_err().to_string();
        assert!(
            error.contains("window_bits") && error.contains("producers_max"),
            "{error}"
        );
    }
}
