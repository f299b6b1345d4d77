//! For authors of engines: place your own barriers, and only where they are due.
//!
//! An engine knows what each of its dispatches reads and writes. It can put a barrier after every one and let a layer
//! sort them out, or it can ask this crate while it records. This example does the latter for the first steps of a
//! transformer layer; `cargo run -p zinc-hazard --example own_barriers` prints what it decides.
//!
//! The engine's side has three parts:
//!
//! 1. **Say what each dispatch touches.** One [`Access`] for each span that a kernel reads or writes. A range is a place
//!    in an *allocation*: if two of your buffers are bound to one `VkDeviceMemory`, give both its [`MemoryId`].
//! 2. **Ask for a barrier wherever a naive engine would have one**: after every dispatch. [`Tracker::asked`] costs
//!    nothing that reaches the driver.
//! 3. **Emit what [`Tracker::operation`] returns before the dispatch**, and what [`Tracker::flush`] returns before the
//!    command buffer ends. That is all; the masks are yours.
//!
//! If your command buffer is known as a whole before it is recorded, as a decode step's is, [`Stretch`] decides better:
//! it chooses the best place for each barrier and cuts its masks ([`Freedom::InOrder`]), or moves dispatches so that
//! fewer barriers are needed ([`Freedom::AnyOrder`]).

use zinc_hazard::{
    Access, Barrier, Carry, Flags, Freedom, Issue, MemoryId, Range, Scope, Stages, Stretch, Tracker,
};

/// A dispatch: its name, what it reads, what it writes.
type Step = (&'static str, &'static [Range], &'static [Range]);

/// Bytes of one allocation, in units of a vector of activations.
const fn vector(n: u64) -> Range {
    Range::Bytes { memory: MemoryId(1), start: n * 4096, end: (n + 1) * 4096 }
}

/// Weights have an allocation of their own and are never written.
const fn weights(n: u64) -> Range {
    Range::Bytes { memory: MemoryId(2), start: n << 20, end: (n + 1) << 20 }
}

const STEPS: [Step; 8] = [
    ("norm", &[vector(0)], &[vector(1)]),
    ("query", &[vector(1), weights(0)], &[vector(2)]),
    ("key", &[vector(1), weights(1)], &[vector(3)]),
    ("value", &[vector(1), weights(2)], &[vector(4)]),
    ("rope of the query", &[vector(2)], &[vector(5)]),
    ("rope of the key", &[vector(3)], &[vector(6)]),
    ("attention", &[vector(4), vector(5), vector(6)], &[vector(7)]),
    ("output", &[vector(7), weights(3)], &[vector(0)]),
];

/// What the naive engine asks for after every dispatch: what it wrote is there for whatever comes.
fn naive() -> Barrier {
    let compute = |flags| Scope { stages: Stages::COMPUTE_SHADER, flags };
    Barrier {
        src: compute(Flags::SHADER_READ | Flags::SHADER_WRITE),
        dst: compute(Flags::SHADER_READ | Flags::SHADER_WRITE),
    }
}

fn accesses((_, reads, writes): &Step) -> Vec<Access> {
    let read = reads.iter().copied().map(Access::shader_read);
    read.chain(writes.iter().copied().map(Access::shader_write)).collect()
}

/// While recording. In an engine, `println!` would be `vkCmdPipelineBarrier` and `vkCmdDispatch`.
fn tracked() -> usize {
    let mut tracker = Tracker::new(Carry::AskedJoin);
    let mut emitted = 0;
    for step in &STEPS {
        if let Some(due) = tracker.operation(&accesses(step)) {
            println!("  -- barrier ({:?})", due.cause);
            emitted += 1;
        }
        println!("  {}", step.0);
        tracker.asked(naive());
    }
    if let Some(due) = tracker.flush() {
        println!("  -- barrier ({:?})", due.cause);
        emitted += 1;
    }
    emitted
}

/// With the whole command buffer known.
fn planned(freedom: Freedom) -> usize {
    let mut stretch = Stretch::new();
    for step in &STEPS {
        stretch.operation(&accesses(step), false);
        stretch.asked(naive());
    }
    let plan = stretch.plan(freedom);
    for issue in &plan.issue {
        match issue {
            Issue::Operation(number) => println!("  {}", STEPS[*number].0),
            Issue::Barrier(number) => {
                let emission = &plan.emissions[*number];
                println!(
                    "  -- barrier ({:?}), {:?} to {:?}",
                    emission.witness.cause, emission.barrier.src.flags, emission.barrier.dst.flags
                );
            }
        }
    }
    plan.emissions.len()
}

fn main() {
    println!("asked for after every dispatch: {}", STEPS.len());
    println!("\nwhile recording:");
    let tracked = tracked();
    println!("\nknown as a whole, in order:");
    let narrow = planned(Freedom::InOrder);
    println!("\nknown as a whole, in any order:");
    let reordered = planned(Freedom::AnyOrder);
    println!("\n{tracked} while recording, {narrow} in order, {reordered} in any order");
    assert!(reordered <= narrow && narrow <= tracked && tracked < STEPS.len());
}
