//! The corpus of each target, and random inputs made from it: no panic, no hang, bounded memory.
//! `make fuzz` looks for new inputs by coverage.
//!
//! `BELLWETHER_FUZZ_SECONDS` sets the time for random inputs of each target, and
//! `BELLWETHER_FUZZ_SEED` repeats a run.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bellwether_fuzz::memory::{self, Counting};
use bellwether_fuzz::mutate::{Dice, mutate};

#[path = "../target/mod.rs"]
mod target;

use target::{TARGETS, Target};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory that one input may take: the largest message of a request is 4 MiB.
const MEMORY_MAX: usize = 64 << 20;
/// The longest time that one input may take, on a machine that does other work.
const TIME_MAX: Duration = Duration::from_secs(20);
const SECONDS_DEFAULT: f64 = 1.5;
/// The number of files and the bytes of a corpus that a repository can carry.
const CORPUS_MAX: (usize, usize) = (200, 256 << 10);

fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Gives one input to a target, and names it if it fails.
fn run(target: &Target, name: &str, input: &[u8]) {
    let start = Instant::now();
    let guard = Named { target: target.name, name, input };
    let peak = memory::peak(|| (target.run)(input));
    assert!(peak <= MEMORY_MAX, "it took {peak} bytes; at most {MEMORY_MAX}");
    assert!(start.elapsed() <= TIME_MAX, "it took {:?}", start.elapsed());
    drop(guard);
}

/// Prints the input if it is dropped by a panic.
struct Named<'a> {
    target: &'static str,
    name: &'a str,
    input: &'a [u8],
}

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = std::env::temp_dir().join(format!("bellwether-fuzz-{}", self.target));
            let _ = std::fs::write(&path, self.input);
            eprintln!("{} fails with {}, which is in {}", self.target, self.name, path.display());
        }
    }
}

/// One after the other, because the memory of all is counted together.
#[test]
fn every_target_withstands_its_corpus_and_random_inputs() {
    let seconds = std::env::var("BELLWETHER_FUZZ_SECONDS").ok();
    let seconds = seconds.map_or(SECONDS_DEFAULT, |given| given.parse().unwrap());
    let seed = std::env::var("BELLWETHER_FUZZ_SEED").ok();
    let seed = seed.map_or_else(|| u64::from(std::process::id()), |given| given.parse().unwrap());
    println!("BELLWETHER_FUZZ_SEED={seed}");
    for target in &TARGETS {
        let mut dice = Dice(seed);
        let corpus = corpus(target);
        assert!(!corpus.is_empty(), "{} has no corpus", target.name);
        let bytes: usize = corpus.iter().map(|(_, input)| input.len()).sum();
        assert!(corpus.len() <= CORPUS_MAX.0 && bytes <= CORPUS_MAX.1, "{}", target.name);
        for (path, input) in &corpus {
            run(target, &path.display().to_string(), input);
        }
        let inputs: Vec<Vec<u8>> = corpus.into_iter().map(|(_, input)| input).collect();
        let (start, mut count) = (Instant::now(), 0);
        while start.elapsed().as_secs_f64() < seconds {
            run(target, "a random input", &mutate(&inputs, &mut dice));
            count += 1;
        }
        println!(
            "{}: {} files, {bytes} bytes, and {count} random inputs",
            target.name,
            inputs.len()
        );
    }
}
