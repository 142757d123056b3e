//! Randomness: each random number of a run comes from its seed.
//!
//! Three sources must not differ between two runs. Faults and clients draw from [`Dice`]. The
//! server draws delays from the operating system (`getrandom`), and tokio takes the order in which
//! `select!` polls its branches from there. For these two, this file replaces the function
//! `getrandom` of the C library within the process. Hash maps of the standard library follow too.

use std::sync::atomic::{AtomicU64, Ordering};

/// The state of the numbers that `getrandom` returns.
static PROCESS: AtomicU64 = AtomicU64::new(0);

/// The increment of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Sets what `getrandom` returns from now on.
pub fn seed_process(seed: u64) {
    PROCESS.store(mix(seed ^ 0x0073_6565_6400), Ordering::SeqCst);
}

/// The function of the C library, for everything in this process.
// SAFETY of the export: the symbol has the signature of `getrandom(2)`. It writes `len` bytes to a
// buffer that the caller promises to have, and nothing if `len` is 0.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, len: usize, _flags: u32) -> isize {
    for at in 0..len {
        let state = PROCESS.fetch_add(STEP, Ordering::SeqCst).wrapping_add(STEP);
        // SAFETY: `at` is less than `len`, see above.
        unsafe { buffer.add(at).write(mix(state) as u8) };
    }
    isize::try_from(len).unwrap_or(isize::MAX)
}

/// A generator for the faults and the clients of a run.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Returns the generator of a seed and a purpose: two purposes share no numbers.
    pub fn new(seed: u64, purpose: u64) -> Dice {
        Dice(mix(mix(seed) ^ purpose.wrapping_mul(STEP)))
    }

    /// Returns the next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Returns a number from `from` to `to`, without `to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.roll() % to.saturating_sub(from).max(1)
    }

    /// Returns an index below `len`.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.roll() % (len.max(1) as u64)).unwrap_or_default()
    }

    /// Returns true in this share of the calls.
    pub fn per_mille(&mut self, share: u64) -> bool {
        self.roll() % 1000 < share
    }
}
