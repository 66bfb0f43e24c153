//! Which rows come out, byte for byte, and what becomes of bad ones.

use std::collections::HashSet;
use std::fs;

use super::program::{order_lines, run, run_piped};

#[test]
fn real_order_lines_come_out_once_and_byte_for_byte() {
    let dir = tempfile::tempdir().unwrap();
    let input = order_lines();
    let args = format!(
        "dedup --store s --key * --input {} --output out.csv --json",
        input.display()
    );
    let ran = run(dir.path(), &args);
    assert_eq!(ran.expect(0).counts(), [9999, 9803, 196, 0]);

    // No field of this file has a line break, so lines are rows.
    let text = fs::read(input).unwrap();
    let mut seen = HashSet::new();
    let distinct: Vec<&[u8]> = text
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| seen.insert(*line))
        .collect();
    assert_eq!(distinct.len(), 9804);
    assert_eq!(
        fs::read(dir.path().join("out.csv")).unwrap(),
        distinct.concat()
    );

    let again = run(dir.path(), &args);
    assert_eq!(again.expect(0).counts(), [9999, 0, 9999, 0]);
}

#[test]
fn columns_and_scopes_decide_what_a_repeat_is() {
    let dir = tempfile::tempdir().unwrap();
    let base = format!(
        "dedup --store s --json --input {} --key",
        order_lines().display()
    );
    let ran = run(dir.path(), &format!("{base} InvoiceNo,StockCode"));
    assert_eq!(ran.expect(0).counts(), [9999, 9652, 347, 0]);
    assert_eq!(ran.stdout.split(|byte| *byte == b'\n').count(), 9652 + 2);
    let ran = run(dir.path(), &format!("{base} InvoiceNo --scope invoices"));
    assert_eq!(ran.expect(0).counts(), [9999, 512, 9487, 0]);
}

#[test]
fn odd_bytes_pass_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let text =
        b"\xEF\xBB\xBFid,text\r\n1,\"line\nbreak, \"\"quoted\"\"\"\n\"1\",other\r\n\n2,\xE9\r3,end";
    let ran = run_piped(dir.path(), "dedup --store s --key id --json", text);
    assert_eq!(ran.expect(0).counts(), [4, 3, 1, 0]);
    let expected = b"\xEF\xBB\xBFid,text\r\n1,\"line\nbreak, \"\"quoted\"\"\"\n2,\xE9\r3,end";
    assert_eq!(ran.stdout, expected);
}

#[test]
fn json_rows_are_told_apart_by_paths_and_types() {
    let dir = tempfile::tempdir().unwrap();
    let text = b"{\"u\":{\"id\":1},\"n\":\"a\"}\n{\"u\":{\"id\":\"1\"},\"n\":\"a\"}\n\n\
        {\"n\" : \"a\", \"u\" : { \"id\" : 1 }}\n{\"u\":{\"id\":1},\"n\":\"b\"}";
    let ran = run_piped(
        dir.path(),
        "dedup --store s --format jsonl --key u.id,n --json",
        text,
    );
    assert_eq!(ran.expect(0).counts(), [4, 3, 1, 0]);
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(ran.stdout, [lines[0], lines[1], lines[4]].concat());
}

#[test]
fn a_bad_row_stops_the_run_with_its_number_and_the_rows_before_it_are_done() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.csv");
    let args = "dedup --store s --key b --input in.csv --output out.csv --json";
    fs::write(&input, "a,b\n1,x\n2\n3,y\n").unwrap();
    let ran = run(dir.path(), args);
    ran.expect_said(3, "row 2 (at byte 8): column \"b\" is missing");
    assert_eq!(ran.counts(), [1, 1, 0, 0]);
    assert_eq!(fs::read(dir.path().join("out.csv")).unwrap(), b"a,b\n1,x\n");

    // The mended file goes on where it stopped.
    fs::write(&input, "a,b\n1,x\n2,x\n3,y\n").unwrap();
    assert_eq!(run(dir.path(), args).expect(0).counts(), [3, 2, 1, 0]);
    assert_eq!(
        fs::read(dir.path().join("out.csv")).unwrap(),
        b"a,b\n1,x\n3,y\n"
    );
}

#[test]
fn bad_rows_are_counted_and_go_to_the_rejects() {
    let dir = tempfile::tempdir().unwrap();
    let long = "x".repeat(5000);
    let text = format!("a,b\n1,x\n2\n3,{long}\n4,\n5,y\n");
    let args = "dedup --store s --key b --rejects bad.csv --json";
    let ran = run_piped(dir.path(), args, text.as_bytes());
    assert_eq!(ran.expect(0).counts(), [5, 2, 0, 3]);
    assert_eq!(ran.stdout, b"a,b\n1,x\n5,y\n");
    let rejects = fs::read_to_string(dir.path().join("bad.csv")).unwrap();
    assert_eq!(rejects, format!("a,b\n2\n3,{long}\n4,\n"));
    for why in [
        "row 2: column",
        "row 3: the id has",
        "row 4: the key columns are empty",
    ] {
        assert!(ran.stderr.contains(why), "{:?} lacks {why:?}", ran.stderr);
    }

    let text = b"{\"a\":1}\n{\"a\":\n{\"b\":1}\n{\"a\":null}\n";
    let args = "dedup --store s --scope j --format jsonl --key a --on-error skip --json";
    assert_eq!(
        run_piped(dir.path(), args, text).expect(0).counts(),
        [4, 1, 0, 3]
    );
}

#[test]
fn an_id_is_first_seen_again_after_its_retention() {
    let dir = tempfile::tempdir().unwrap();
    let args = "dedup --store s --key a --retention 1ms --json";
    for _ in 0..2 {
        // Opening the store again takes longer than the retention.
        assert_eq!(
            run_piped(dir.path(), args, b"a\n1\n2\n").expect(0).counts(),
            [2, 2, 0, 0]
        );
    }
}

#[test]
fn rows_without_a_header_are_keyed_by_number() {
    let dir = tempfile::tempdir().unwrap();
    let args = "dedup --store s --no-header --key 2 --json";
    let ran = run_piped(dir.path(), args, b"1,x\n2,y\n3,x\n");
    assert_eq!(ran.expect(0).counts(), [3, 2, 1, 0]);
    assert_eq!(ran.stdout, b"1,x\n2,y\n");
}

#[test]
fn wrong_usage_is_told_from_failure_and_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in.csv"), "a,b\n1,2\n").unwrap();
    let store = dir.path().join("s");
    let ran = run(
        dir.path(),
        "dedup --store s --key c --input in.csv --output out.csv",
    );
    ran.expect_said(2, "there is no column \"c\"; the header has a, b");
    run(dir.path(), "dedup --store s --key a --batch 0").expect(2);
    run(dir.path(), "dedup --store s --key a --retention 7").expect(2);
    run(dir.path(), "dedup --store s --key a --input none.csv").expect_said(1, "none.csv");
    assert!(!store.exists() && !dir.path().join("out.csv").exists());
    run(
        dir.path(),
        "dedup --store s --key a --input in.csv --output in.csv",
    )
    .expect(2);
    assert_eq!(fs::read(dir.path().join("in.csv")).unwrap(), b"a,b\n1,2\n");
    assert!(store.exists());
}
