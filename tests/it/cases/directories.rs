//! One opener a directory, in this process and among all.

use std::process::Command;

use firstseen::{ErrorKind, Options, Store};

use super::{own_name, week};

#[test]
fn a_second_open_in_this_process_is_refused_with_the_first_ones_number() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    assert!(week(&store).insert("a").unwrap().is_first());
    let error = Store::open(dir.path(), Options::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyOpen, "{error}");
    let text = error.to_string();
    assert!(text.contains("already open"), "{text}");
    assert!(text.contains(&std::process::id().to_string()), "{text}");
    assert!(text.contains(&dir.path().display().to_string()), "{text}");
    // It did no harm, and the number is still there for the next one.
    assert!(week(&store).insert("a").unwrap().is_duplicate());
    let again = Store::open(dir.path(), Options::new())
        .unwrap_err()
        .to_string();
    assert!(again.contains(&std::process::id().to_string()), "{again}");
    drop(store);
    let store = Store::open(dir.path(), Options::new()).unwrap();
    assert!(week(&store).insert("a").unwrap().is_duplicate());
}

/// Tells the child which directory to try.
const OPENED: &str = "FIRSTSEEN_TEST_OPENED";

#[test]
fn a_second_process_is_refused_with_the_first_ones_number() {
    if let Some(dir) = std::env::var_os(OPENED) {
        println!("{:?}", Store::open(dir, Options::new()).map(drop));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let test = "a_second_process_is_refused_with_the_first_ones_number";
    let child = || {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &own_name(module_path!(), test), "--nocapture"])
            .env(OPENED, dir.path())
            .output()
            .unwrap();
        String::from_utf8_lossy(&child.stdout).into_owned()
    };
    let said = child();
    let number = format!("by process {}", std::process::id());
    assert!(
        said.contains("AlreadyOpen") && said.contains(&number),
        "{said}"
    );
    assert!(week(&store).insert("a").unwrap().is_first());
    store.close().unwrap();
    let said = child();
    assert!(said.contains("Ok(())"), "{said}");
}

#[test]
fn a_missing_directory_is_made_and_a_wrong_one_refused() {
    let root = tempfile::tempdir().unwrap();
    let deep = root.path().join("a/b/c");
    assert!(
        week(&Store::open(&deep, Options::new()).unwrap())
            .insert("a")
            .unwrap()
            .is_first()
    );
    assert_eq!(
        Store::open("", Options::new()).unwrap_err().kind(),
        ErrorKind::Invalid
    );
    let file = root.path().join("file");
    std::fs::write(&file, "text").unwrap();
    assert!(Store::open(&file, Options::new()).is_err());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
}
