//! Makes a failing program small, by taking parts out while it still fails.

/// Runs of the program that a shrink may cost.
const RUNS_MAX: u32 = 600;

/// A program from which no single part can be taken: first halves, then quarters, down to
/// single steps.
pub(crate) fn shrunk<T: Clone>(program: Vec<T>, fails: impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut least = program;
    let mut size = least.len().div_ceil(2);
    let mut runs_left = RUNS_MAX;
    while size > 0 && runs_left > 0 {
        let mut from = 0;
        let mut smaller = false;
        while from < least.len() && runs_left > 0 {
            let mut tried = least.clone();
            tried.drain(from..(from + size).min(least.len()));
            runs_left -= 1;
            if fails(&tried) {
                least = tried;
                smaller = true;
            } else {
                from += size;
            }
        }
        if size > 1 {
            size = size.div_ceil(2);
        } else if !smaller {
            break;
        }
    }
    least
}

#[test]
fn only_what_is_needed_stays() {
    let program: Vec<u32> = (0..200).collect();
    let fails = |p: &[u32]| p.contains(&17) && p.contains(&140) && p.contains(&141);
    assert_eq!(shrunk(program, fails), [17, 140, 141]);
}
