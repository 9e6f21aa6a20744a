//! What the benchmark programs share. Each takes one argument, how much work to do, and prints a
//! number that depends on all of it.

/// How many threads most of the programs have.
pub const THREADS: usize = 2;

/// The work that was asked for, in units of about a hundredth of a second.
pub fn work() -> usize {
    let argument = std::env::args().nth(1);
    argument.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// A fixed sequence of numbers without visible order.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// Another sequence for each seed.
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The next number, below a limit.
    #[inline]
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit
    }
}
