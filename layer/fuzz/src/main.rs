//! Runs a million random inputs against what must survive any: `zinc-reflect`, and the layer under an application.
//!
//! A seed and the number of an execution decide all that happens in it, so a finding is replayed by its number:
//! `--seed S --first N --executions 1`, or for a stream from the start of its device (the message has the command).
//! The exit status is 1 when anything panicked, when memory stays behind, or when one execution takes ten seconds.

mod mutate;
mod objects;
mod record;
mod spirv;
mod streams;
mod watch;

#[path = "../../reflect/tests/ranges/generate.rs"]
#[allow(dead_code, reason = "the tests of extents use more of it")]
mod generate;
#[path = "../../tests/mock/mod.rs"]
mod mock;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::{Parser, ValueEnum};
use fastrand::Rng;

#[global_allocator]
static COUNTING: watch::Counting = watch::Counting;

/// Bytes that may stay behind over all executions after the first tenth: less than one bit for each of a million.
const STAYS: i64 = 64 << 10;
const HANGS: Duration = Duration::from_secs(10);

/// How an execution ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The input was taken, or every call succeeded.
    Accepted,
    /// The input was refused, or a call of the driver's failed.
    Refused,
}

/// What is fuzzed.
pub trait Target {
    /// What it starts from.
    fn describe(&self) -> String;

    /// One execution; its number says nothing but where longer-lived objects are renewed.
    fn execute(&mut self, number: u64, rng: &mut Rng) -> Outcome;

    /// Gives back all that lives longer than an execution, so that what is left is a leak.
    fn settle(&mut self) {}
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// SPIR-V modules, valid and damaged, into zinc-reflect.
    Spirv,
    /// Vulkan calls in random order to the layer on a driver that fails.
    Streams,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Plant {
    /// Panics in one execution.
    Panic,
    /// Forgets 16 bytes in each.
    Leak,
}

/// Random inputs against zinc-reflect and the layer.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    target: Name,
    /// How many inputs.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    executions: u64,
    /// What decides the inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of the first one.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// The folder with the tests of zinc-reflect, whose shaders are the seeds of `spirv`.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../reflect/tests"))]
    seeds: PathBuf,
    /// How many random shaders are seeds of `spirv`, too.
    #[arg(long, default_value_t = 100)]
    generated: usize,
    /// Plants a fault, to see that it is found.
    #[arg(long)]
    plant: Option<Plant>,
}

fn mixed(seed: u64, number: u64) -> u64 {
    (seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd1b5_4a32_d192_ed03)
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("zinc-fuzz: error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool> {
    let mut target: Box<dyn Target> = match arguments.target {
        Name::Spirv => Box::new(spirv::Spirv::new(&arguments.seeds, arguments.generated, arguments.seed)?),
        Name::Streams => Box::new(streams::Streams::new()),
    };
    let name = arguments.target.to_possible_value().map_or(String::new(), |v| v.get_name().to_owned());
    eprintln!("{name}: {} from seed {}; {}", arguments.executions, arguments.seed, target.describe());
    watch::panics_are_counted();

    let (began, mut said) = (Instant::now(), Instant::now());
    let (mut refused, mut slowest, mut slowest_at) = (0u64, Duration::ZERO, 0);
    let (mut seen, mut findings) = (0, 0);
    let (warm, mut settled) = (arguments.executions / 10, None);
    for done in 0..arguments.executions {
        let number = arguments.first + done;
        if done == warm {
            target.settle();
            settled = Some(watch::live());
        }
        let start = Instant::now();
        let mut rng = Rng::with_seed(mixed(arguments.seed, number));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            match arguments.plant {
                Some(Plant::Panic) if done == arguments.executions / 2 => panic!("planted"),
                Some(Plant::Leak) => drop(Box::leak(Box::new([number; 2]))),
                _ => {}
            }
            target.execute(number, &mut rng)
        }));
        refused += u64::from(matches!(outcome, Ok(Outcome::Refused)));
        let took = start.elapsed();
        if took > slowest {
            (slowest, slowest_at) = (took, number);
        }
        if watch::panics() > seen {
            seen = watch::panics();
            findings += 1;
            if findings <= 10 {
                let (seed, about) = (arguments.seed, watch::last_panic());
                let first = if matches!(arguments.target, Name::Streams) {
                    streams::start_of(number)
                } else {
                    number
                };
                let count = number + 1 - first;
                eprintln!("{name}: execution {number}: {about}");
                eprintln!("  again: zinc-fuzz {name} --seed {seed} --first {first} --executions {count}");
            }
        }
        if said.elapsed() > Duration::from_secs(10) {
            said = Instant::now();
            let rate = (done + 1) as f64 / began.elapsed().as_secs_f64();
            eprintln!("{name}: {} executions, {rate:.0}/s, {seen} panics", done + 1);
        }
    }
    let took = began.elapsed();
    target.settle();
    let stays = settled.map_or(0, |settled| watch::live() - settled);
    // Few executions are no warm-up: what is made once a process would count.
    let leaks = stays > STAYS && arguments.executions >= 500;
    let good = seen == 0 && !leaks && slowest < HANGS;
    let rate = arguments.executions as f64 / took.as_secs_f64();
    let accepted = arguments.executions - refused;
    writeln!(
        std::io::stdout(),
        "| {name} | {} | {} | {rate:.0} | {accepted} | {refused} | {seen} | {stays} | {} | {} ms (number {slowest_at}) | {} |",
        arguments.executions,
        arguments.seed,
        watch::peak_kib() / 1024,
        slowest.as_millis(),
        if good { "good" } else { "BAD" },
    )?;
    Ok(good)
}
