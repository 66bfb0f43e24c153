//! Names of the fields that carry an id beside a message.
//!
//! The producer sets the id once, before its first try, and every retry carries the same. An
//! id that the broker hands out is of no use: a retried send gets a new one.
//!
//! Where a field holds text only, carry [`Key::to_hex`](crate::Key::to_hex) or an id that is
//! text already. Both ends must agree on one of the two.
//!
//! # Examples
//!
//! ```
//! use firstseen::{Key, header};
//!
//! let key = Key::new("order-17").event("charged");
//! let sent = [(header::NATS, key.to_hex())];
//!
//! let received = sent.iter().find(|(name, _)| *name == header::NATS).map(|(_, id)| id);
//! assert_eq!(Key::parse_hex(received.ok_or("no id")?)?, key);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// HTTP requests. Names of HTTP fields ignore case; some clients quote the value.
pub const HTTP: &str = "Idempotency-Key";

/// Kafka record headers, which keep case and take raw bytes. A convention, as Kafka names none.
pub const KAFKA: &str = "idempotency-key";

/// AMQP 1.0: the property in the message's properties section, set by the sender.
pub const AMQP_1_0: &str = "message-id";

/// AMQP 0-9-1 (RabbitMQ): the basic property, set by the publisher.
pub const AMQP_0_9_1: &str = "message_id";

/// NATS and JetStream message headers, which keep case. JetStream's own duplicate window reads
/// the same field.
pub const NATS: &str = "Nats-Msg-Id";

/// Amazon SQS FIFO queues: up to 128 letters, digits and punctuation marks.
pub const SQS: &str = "MessageDeduplicationId";

/// Azure Service Bus: the property set by the sender, up to 128 characters.
pub const SERVICE_BUS: &str = "MessageId";

/// ActiveMQ Artemis: the property that its own duplicate detection reads.
pub const ARTEMIS: &str = "_AMQ_DUPL_ID";

/// RocketMQ: the message property for business keys, separated by spaces where there are more.
pub const ROCKETMQ: &str = "KEYS";

/// CloudEvents over HTTP (binary mode). An event is named by this *and* [`CLOUDEVENTS_SOURCE`],
/// so compose both: `Key::parts([source, id])`.
pub const CLOUDEVENTS_ID: &str = "ce-id";

/// CloudEvents over HTTP (binary mode): the source, within which the id is unique.
pub const CLOUDEVENTS_SOURCE: &str = "ce-source";
