//! The examples, run as tests: each is a whole program over the public API alone.

#![allow(dead_code, reason = "an example's `main` only prints")]
#![allow(
    clippy::duplicate_mod,
    reason = "each example brings its brokers, as it does alone"
)]

#[path = "../../examples/consume.rs"]
mod consume;
#[path = "../../examples/hold.rs"]
mod hold;
#[path = "../../examples/pay.rs"]
mod pay;
#[path = "../../examples/sequences.rs"]
mod sequences;
#[path = "../../examples/stock.rs"]
mod stock;
#[path = "../../examples/submit.rs"]
mod submit;
#[path = "../../examples/take.rs"]
mod take;
#[path = "../../examples/tokio.rs"]
mod tokio_consumer;

#[test]
fn a_consumer_survives_a_broken_connection() {
    let expected = consume::Outcome {
        duplicates: 334,
        orders: 900,
        refused: 100,
        poison: 1,
        stock: Some(0),
    };
    // From where the store left off: what the first run saw is not among the second's.
    let outcome = consume::example().expect("the example runs");
    assert!(outcome.duplicates < expected.duplicates, "{outcome:?}");
    let duplicates = outcome.duplicates;
    assert_eq!(
        outcome,
        consume::Outcome {
            duplicates,
            ..expected
        }
    );
}

#[test]
fn dear_work_is_done_for_first_seen_messages_only() {
    assert_eq!(hold::example().expect("the example runs"), (10, 0, 10));
}

#[test]
fn a_stock_is_never_oversold_by_closures() {
    let (taken, sold_out, left) = take::example().expect("the example runs");
    assert_eq!((taken, left), (10, Some(0)));
    assert!(sold_out >= 10, "{sold_out}");
}

#[test]
fn numbered_clicks_count_once_and_a_former_run_is_fenced() {
    let expected = (201, true, Some(101));
    assert_eq!(sequences::example().expect("the example runs"), expected);
}

#[test]
fn submitted_commits_acknowledge_every_delivery_once_stored() {
    assert_eq!(submit::example().expect("the example runs"), (6000, 2000));
}

/// On a runtime, with acknowledgements that get lost and a partner that breaks off.
#[test]
fn an_async_consumer_acknowledges_while_it_polls() {
    let (delivered, orders, told) = tokio_consumer::example().expect("the example runs");
    assert!(delivered > 6_000, "{delivered}: some come again");
    assert_eq!((orders, told), (3_000, 50));
}

#[test]
fn a_payment_is_charged_once_whatever_its_client_repeats() {
    let (statuses, charged, ledger) = pay::example().expect("the example runs");
    let expected = [201, 201, 422, 400, 402, 402, 503, 503, 409, 201];
    assert_eq!(statuses, expected);
    assert_eq!((charged, ledger), (2, 2));
}

#[test]
fn every_real_order_line_takes_from_stock_exactly_once() {
    let (delivered, first, is_right) = stock::example().expect("the example runs");
    assert_eq!((delivered, first), (3 * 9999, 9803));
    assert!(is_right);
}
