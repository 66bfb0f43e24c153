//! `in-doubt`, and the number of transactions in `stat`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use firstseen::{Error, Options, Policy, Store, days};
use serde_json::json;

use super::program::run;

fn prepare(dir: &Path, txns: &[&str]) -> Result<Store, Error> {
    let store = Store::open(dir.join("s"), Options::new())?;
    let ids = store.scope("orders", Policy::remember(days(7)))?;
    let rows = store.table("rows")?;
    for txn in txns {
        let mut batch = store.batch();
        batch.once(&ids, txn).put(&rows, txn, "row");
        let _ = batch.prepare(txn)?;
    }
    Ok(store)
}

#[test]
fn transactions_in_doubt_are_listed_while_in_use_and_ended_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let store = prepare(dir.path(), &["cp-1", "cp-2"]).unwrap();
    let listed = run(dir.path(), "in-doubt list --store s --json")
        .expect(0)
        .json_lines();
    let told: Vec<_> = listed
        .iter()
        .map(|d| (&d["txn"], &d["hex"], &d["ids"], &d["tables"]))
        .collect();
    let (one, two, ids, tables) = (json!("cp-1"), json!("cp-2"), json!(1), json!(["rows"]));
    let (hex_one, hex_two) = (json!("63702d31"), json!("63702d32"));
    let expected = [
        (&one, &hex_one, &ids, &tables),
        (&two, &hex_two, &ids, &tables),
    ];
    assert_eq!(told, expected);
    let stat = run(dir.path(), "stat --store s --json")
        .expect(0)
        .json_lines();
    assert_eq!(stat[0]["in_doubt"], json!(2));
    let text = run(dir.path(), "stat --store s").expect(0).stdout.clone();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("2, the oldest for"), "{text}");
    store.close().unwrap();

    run(dir.path(), "in-doubt commit --store s cp-1").expect(2);
    let commit = "in-doubt commit --store s --why asked --actor ada --json cp-1 cp-9";
    let told = run(dir.path(), commit).expect(4).json_lines();
    assert_eq!(
        (&told[0]["committed"], &told[1]["committed"]),
        (&json!(true), &json!(false))
    );
    let abort = "in-doubt abort --store s --why gone --actor ada --hex 63702d32";
    for said in ["aborted  cp-2\n", "aborted before  cp-2\n"] {
        let told = run(dir.path(), abort).expect(0).stdout.clone();
        assert_eq!(String::from_utf8(told).unwrap(), said);
    }
    let late = "in-doubt commit --store s --why late cp-2";
    run(dir.path(), late).expect_said(1, "was aborted");
    run(dir.path(), "in-doubt abort --store s --why x --hex zz").expect(2);
    let left = run(dir.path(), "in-doubt list --store s")
        .expect(0)
        .stdout
        .clone();
    assert_eq!(left, b"");

    let audit = run(dir.path(), "audit --store s --json")
        .expect(0)
        .json_lines();
    let what: Vec<_> = audit
        .iter()
        .map(|a| (&a["what"], &a["txn"], &a["who"], &a["why"]))
        .collect();
    let (committed, aborted, ada) = (json!("committed"), json!("aborted"), json!("ada"));
    let (asked, gone) = (json!("asked"), json!("gone"));
    assert_eq!(
        what,
        [
            (&committed, &one, &ada, &asked),
            (&aborted, &two, &ada, &gone)
        ]
    );
    let store = prepare(dir.path(), &[]).unwrap();
    let rows = store.table("rows").unwrap();
    assert!(rows.get("cp-1").unwrap().is_some() && rows.get("cp-2").unwrap().is_none());
}
