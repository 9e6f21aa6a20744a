//! crossbeam channels: a producer, two workers and a collector.

use bench_programs::{Random, work};

fn main() {
    let items = 30_000 * work();
    let (send, jobs) = crossbeam_channel::bounded::<(usize, u64)>(256);
    let (done, results) = crossbeam_channel::unbounded::<u64>();
    let sum = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut random = Random::new(5);
            for item in 0..items {
                send.send((item, random.next())).unwrap();
            }
        });
        for _ in 0..2 {
            let (jobs, done) = (jobs.clone(), done.clone());
            scope.spawn(move || {
                for (item, mut number) in jobs {
                    for _ in 0..item % 8 {
                        number = number.rotate_left(9).wrapping_mul(0x9e37_79b9);
                    }
                    done.send(number).unwrap();
                }
            });
        }
        drop((jobs, done));
        results.iter().fold(0u64, |sum, number| sum.wrapping_add(number))
    });
    println!("{sum}");
}
