//! A slower processor: neighbours that keep it busy.
//!
//! On a shim the processor is all that a token waits for, so a token's wall time there is the ceiling of what can be
//! handed to a GPU. How near that ceiling is shows when the processor has less time to give. Frequency and quotas belong
//! to the machine's owner; threads that never rest can be had anywhere: with one on each logical processor a run gets
//! about half of its time, with three about a quarter. They take time and not speed, so the CPU time of a token stays
//! what it was, but for caches and for threads that share a core, and its wall time grows.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Threads that are busy until this is dropped.
#[derive(Debug)]
pub struct Neighbours {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Neighbours {
    /// Starts `number` of them on each logical processor.
    ///
    /// # Errors
    ///
    /// When the system gives no more threads; none is left running then.
    pub fn start(number: u32) -> std::io::Result<Neighbours> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let stop = Arc::new(AtomicBool::new(false));
        let mut neighbours = Neighbours { stop: Arc::clone(&stop), threads: Vec::new() };
        for _ in 0..number as usize * processors {
            let stop = Arc::clone(&stop);
            let thread = std::thread::Builder::new().name("neighbour".into()).spawn(move || busy(&stop))?;
            neighbours.threads.push(thread);
        }
        Ok(neighbours)
    }
}

fn busy(stop: &AtomicBool) {
    let mut x = 1u64;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..10_000 {
            x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It neither panics nor has anything to say.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_as_asked_for_and_none_is_left_behind() {
        let own = || {
            let tasks = std::fs::read_dir("/proc/self/task").unwrap();
            let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm"));
            tasks.flatten().filter_map(|t| name(t).ok()).filter(|n| n.trim() == "neighbour").count()
        };
        let neighbours = Neighbours::start(2).unwrap();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        assert_eq!(neighbours.threads.len(), 2 * processors);
        drop(neighbours);
        assert_eq!(own(), 0);
        assert!(Neighbours::start(0).unwrap().threads.is_empty());
    }
}
