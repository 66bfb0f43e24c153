//! `verify`: its exit codes, what it prints, and that it changes nothing.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::program::{run, run_piped};

fn store(dir: &Path) {
    run_piped(dir, "dedup --store s --key a", b"a,b\n1,x\n2,y\n1,x\n").expect(0);
}

#[test]
fn a_sound_store_is_0() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let lock = fs::read(dir.path().join("s/LOCK")).unwrap();
    let ran = run(dir.path(), "verify --store s");
    let text = String::from_utf8_lossy(&ran.expect(0).stdout).into_owned();
    assert!(text.ends_with("\nsound\n"), "{text}");
    let report = run(dir.path(), "verify --store s --json")
        .expect(0)
        .json_lines();
    assert_eq!(report[0]["sound"], json!(true));
    assert_eq!(report[0]["faults"], json!([]));
    assert_eq!(report[0]["checked"]["unsealed_ids"], json!(2));
    assert_eq!(fs::read(dir.path().join("s/LOCK")).unwrap(), lock);
}

#[test]
fn a_damaged_store_is_1_and_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let floor = dir.path().join("s/FLOOR");
    fs::write(&floor, "no floor").unwrap();
    let ran = run(dir.path(), "verify --store s");
    let text = String::from_utf8_lossy(&ran.expect(1).stdout).into_owned();
    assert!(
        text.contains("fault   floor: FLOOR: neither slot is valid\n"),
        "{text}"
    );
    assert!(text.contains("restore a checkpoint"), "{text}");
    assert!(text.ends_with("\n1 fault\n"), "{text}");
    let report = run(dir.path(), "verify --store s --json")
        .expect(1)
        .json_lines();
    assert_eq!(report[0]["sound"], json!(false));
    assert_eq!(report[0]["faults"][0]["area"], json!("floor"));
    assert_eq!(fs::read(floor).unwrap(), b"no floor");
}

#[test]
fn what_cannot_be_checked_is_2() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), "verify --store none").expect_said(2, "no directory");
    fs::create_dir(dir.path().join("empty")).unwrap();
    run(dir.path(), "verify --store empty").expect_said(2, "no store here");
    assert_eq!(fs::read_dir(dir.path().join("empty")).unwrap().count(), 0);
    let options = firstseen::Options::new();
    let open = firstseen::Store::open(dir.path().join("open"), options).unwrap();
    run(dir.path(), "verify --store open").expect_said(2, "already open");
    drop(open);
}
