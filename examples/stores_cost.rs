//! What many stores in one process cost: memory, threads, descriptors, and the time to open.
//!
//! One store for each partition is the usual shape of a consumer, so the fixed cost of a store
//! matters. Every row is measured in a process of its own, on one set of shared resources: make
//! the stores, give each a scope, a table and 1,000 ids, then close them all and open them again.
//!
//! ```text
//! cargo run --release --example stores_cost            the table for 1, 16 and 200 stores
//! cargo run --release --example stores_cost -- 50      for other counts
//! ```
//!
//! Linux only: the figures come from `/proc/self`.

use std::error::Error;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use firstseen::{Options, Policy, Resources, Store, Stores, days};

const IDS_PER_STORE: u32 = 1_000;
/// Long enough for background work of a fresh store (families and sets made ahead) to end.
const SETTLE: Duration = Duration::from_secs(5);

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, stores] = &args[..]
        && flag == "--one"
    {
        return measure(stores.parse()?);
    }
    let counts = if args.is_empty() {
        vec!["1".into(), "16".into(), "200".into()]
    } else {
        args
    };
    println!(
        "| stores | memory empty, MiB | memory with ids, MiB | threads | descriptors \
         | making, ms a store | opening, ms a store | memory opened again, MiB |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for count in counts {
        // A process's memory hardly ever shrinks, so each row gets a process of its own.
        let status = Command::new(std::env::current_exe()?)
            .args(["--one", &count])
            .status()?;
        if !status.success() {
            return Err(format!("the measurement of {count} stores failed").into());
        }
    }
    Ok(())
}

/// Measures one row and prints it.
fn measure(count: u32) -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let resources = Resources::new();
    let before = Usage::now()?;
    let (stores, making) = {
        let start = now();
        let stores = Stores::new(dir.path(), Options::new(), resources.clone())?;
        let open = assign_all(&stores, count)?;
        fill_all(&open)?;
        (stores, start.elapsed())
    };
    settle();
    let filled = Usage::now()?;
    for partition in stores.assigned() {
        stores.revoke(&partition, Duration::from_secs(10))?;
    }
    drop(stores);

    let start = now();
    let stores = Stores::new(dir.path(), Options::new(), resources)?;
    let open = assign_all(&stores, count)?;
    let opening = start.elapsed();
    settle();
    let opened = Usage::now()?;
    check_all(&open)?;

    println!(
        "| {count} | {} | {} | {} | {} | {:.1} | {:.1} | {} |",
        before.resident_mib,
        filled.resident_mib,
        filled.threads - before.threads,
        filled.descriptors - before.descriptors,
        millis_each(making, count),
        millis_each(opening, count),
        opened.resident_mib,
    );
    Ok(())
}

fn assign_all(stores: &Stores, count: u32) -> Result<Vec<Store>, firstseen::Error> {
    (0..count)
        .map(|partition| stores.assign(&format!("orders/{partition}")))
        .collect()
}

/// Gives each store a scope, a table, and ids with a row each.
fn fill_all(open: &[Store]) -> Result<(), firstseen::Error> {
    for store in open {
        let ids = store.scope("orders", Policy::remember(days(7)))?;
        let orders = store.table("orders")?;
        let mut batch = store.batch();
        for id in 0..IDS_PER_STORE {
            let id = id_of(id);
            batch.once(&ids, &id).put(&orders, id, "one order");
        }
        let verdicts = batch.commit()?;
        assert!(verdicts.iter().all(firstseen::Verdict::is_first));
    }
    Ok(())
}

/// The stores that were opened again know what they knew.
fn check_all(open: &[Store]) -> Result<(), firstseen::Error> {
    for store in open {
        let ids = store.scope("orders", Policy::remember(days(7)))?;
        assert!(ids.insert(&id_of(IDS_PER_STORE - 1))?.is_duplicate());
        assert!(ids.insert(&id_of(IDS_PER_STORE))?.is_first());
    }
    Ok(())
}

/// 16 bytes, the size of a UUID.
fn id_of(n: u32) -> [u8; 16] {
    (u128::from(n) + 1)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)
        .to_be_bytes()
}

/// What this process uses now.
struct Usage {
    resident_mib: u64,
    threads: u64,
    descriptors: u64,
}

impl Usage {
    fn now() -> Result<Usage, Box<dyn Error>> {
        let status = fs::read_to_string("/proc/self/status")?;
        let number = |field: &str| -> Result<u64, Box<dyn Error>> {
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            let word = line.and_then(|rest| rest.split_whitespace().next());
            Ok(word
                .ok_or_else(|| format!("/proc/self/status has no {field}"))?
                .parse()?)
        };
        Ok(Usage {
            resident_mib: number("VmRSS:")? / 1024,
            threads: number("Threads:")?,
            descriptors: fs::read_dir("/proc/self/fd")?.count() as u64,
        })
    }
}

fn millis_each(time: Duration, count: u32) -> f64 {
    time.as_secs_f64() * 1000.0 / f64::from(count.max(1))
}

#[expect(
    clippy::disallowed_methods,
    reason = "measuring real time is what this program is for"
)]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "waits for nothing that would signal"
)]
fn settle() {
    std::thread::sleep(SETTLE);
}
