//! A program as data: memory, buffers, recordings; and what memory holds after it, worked out on the host.
//!
//! All memory is taken in blocks of 64 words, which is what one workgroup touches. Two buffers, and even two allocations, may be
//! the same block of a *store*; what a program computes is defined on stores alone.

use ash::vk;
/// Words of a block: one workgroup's.
pub const WORDS: usize = 64;
/// Bytes of a block.
pub const BLOCK: u64 = 4 * WORDS as u64;

/// Where the bytes of an allocation come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An allocation like any other, with a store of its own.
    Own,
    /// An import of host memory, whose store this is; another allocation imports the same.
    Host(usize),
    /// An import of what the host has mapped of the allocation of this number.
    Mapped(usize),
}

/// One allocation.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Where its bytes come from.
    pub origin: Origin,
    /// Which store its bytes are.
    pub store: usize,
}

/// One buffer.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    /// Its allocation's number.
    pub memory: usize,
    /// Its first block in the allocation.
    pub first: usize,
    /// How many blocks it has.
    pub blocks: usize,
}

/// A block of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The buffer's number.
    pub buffer: usize,
    /// The block in the buffer.
    pub block: usize,
}

/// What a dispatch computes, on its places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Place 0 from the invocation's number and k.
    Write,
    /// Place 1 from place 0.
    Step,
    /// Place 2 from places 0 and 1.
    Add,
    /// Place 0 from itself.
    Scale,
    /// Place 1, in set 1, from place 0, in set 0.
    Far,
    /// Place 0 from place `1 + k` of those that follow it, which are elements of an array.
    Pick,
    /// Place 1 from place 0, which is reached by its address.
    Peek,
}

/// How sets get to a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Sets that were written and bound.
    Plain,
    /// The same with dynamic offsets.
    Dynamic,
    /// Written with a template.
    Template,
    /// Pushed in one call.
    Push,
    /// Pushed one by one, each with a layout of another handle.
    PushOneByOne,
    /// Pushed with a template.
    PushTemplate,
    /// Only what differs from the dispatch before is pushed.
    PushTheRest,
    /// An array that is bound in part, of so many descriptors; update-after-bind or not.
    Array { count: u32, late: bool },
}

/// What else is bound around a dispatch's sets, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Nothing.
    None,
    /// Set 1 before set 0, with a layout that is incompatible for set 0.
    StrangeHigherFirst,
    /// Set 0 twice, first with a layout that has nothing to do with the pipeline.
    StrangeFirst,
    /// Set 1 after set 0, with a compatible layout of other handles.
    HigherLater,
    /// All that the shader takes in the opposite order of their numbers.
    Backwards,
}

/// One operation.
#[derive(Clone, Debug)]
pub enum Op {
    Dispatch {
        kernel: Kernel,
        places: Vec<Place>,
        k: u32,
        way: Way,
        noise: Noise,
        /// Layouts of other handles than the pipeline's, destroyed as soon as they were bound with.
        short_lived: bool,
        /// Where the number of workgroups, which is 1, 1, 1, lies in memory.
        indirect: Option<Place>,
    },
    Copy {
        from: Place,
        to: Place,
        second: bool,
    },
    Fill(Place, u32),
    Update(Place, u32),
}

/// One command of a recording.
#[derive(Clone, Debug)]
pub enum Step {
    Op(Op),
    /// A barrier of this kind (`barriers::BARRIERS`).
    Barrier(usize),
    /// An event that is set and waited for, everything to everything.
    Event,
    /// A timestamp at this stage, after a reset of its query.
    Timestamp(vk::PipelineStageFlags),
    /// A debug region begins.
    Begin,
    /// A debug region ends, if one is open.
    End,
    /// A label between commands.
    Label,
    /// A secondary command buffer with these steps.
    Secondary(Vec<Step>),
}

/// One command buffer, submitted once.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Allocations' buffers to be made anew before, in other memory, the old memory being freed first and the old buffer last.
    pub renewed: Vec<usize>,
    /// What is ignored for a primary command buffer is there: a flag, and a pointer to nowhere.
    pub ignored: bool,
    /// It waits for a semaphore of the recording before; otherwise the host has waited.
    pub chained: bool,
    /// Which of the device's queues it goes to.
    pub queue: usize,
    pub steps: Vec<Step>,
}

/// A program.
#[derive(Clone, Debug)]
pub struct Program {
    pub seed: u64,
    /// Blocks of each store.
    pub stores: Vec<usize>,
    pub memories: Vec<Memory>,
    pub buffers: Vec<Buffer>,
    pub recordings: Vec<Recording>,
}

impl Program {
    /// The store and the block in it that a place is.
    pub fn locate(&self, place: Place) -> (usize, usize) {
        let buffer = &self.buffers[place.buffer];
        (self.memories[buffer.memory].store, buffer.first + place.block)
    }

    /// What the stores hold at first.
    pub fn initial(&self) -> Vec<Vec<u32>> {
        let word = |store: usize, at: usize| ((store * 7919 + at) as u32).wrapping_mul(2_654_435_761);
        self.stores
            .iter()
            .enumerate()
            .map(|(store, blocks)| (0..blocks * WORDS).map(|at| word(store, at)).collect())
            .collect()
    }

    /// What they hold at the end.
    pub fn truth(&self) -> Vec<Vec<u32>> {
        let mut stores = self.initial();
        for recording in &self.recordings {
            self.run(&recording.steps, &mut stores);
        }
        stores
    }

    fn run(&self, steps: &[Step], stores: &mut [Vec<u32>]) {
        for step in steps {
            match step {
                Step::Op(op) => self.execute(op, stores),
                Step::Secondary(steps) => self.run(steps, stores),
                Step::Barrier(_)
                | Step::Event
                | Step::Timestamp(_)
                | Step::Begin
                | Step::End
                | Step::Label => {}
            }
        }
    }

    /// Does one operation to the stores.
    pub fn execute(&self, op: &Op, stores: &mut [Vec<u32>]) {
        let read = |stores: &[Vec<u32>], place: Place| -> Vec<u32> {
            let (store, block) = self.locate(place);
            stores[store][block * WORDS..(block + 1) * WORDS].to_vec()
        };
        let step = |x: u32, k: u32| x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223).wrapping_add(k);
        let (to, words): (Place, Vec<u32>) = match op {
            Op::Dispatch { kernel, places, k, .. } => {
                let of = |place: usize| read(stores, places[place]);
                let each = |f: &dyn Fn(u32) -> u32| (0..WORDS as u32).map(f).collect::<Vec<u32>>();
                match kernel {
                    Kernel::Write => (places[0], each(&|i| i.wrapping_mul(2_654_435_761).wrapping_add(*k))),
                    Kernel::Step | Kernel::Far => {
                        (places[1], of(0).into_iter().map(|x| step(x, *k)).collect())
                    }
                    Kernel::Add => {
                        let sum = of(0).into_iter().zip(of(1)).map(|(a, b)| a.wrapping_add(b));
                        (places[2], sum.collect())
                    }
                    Kernel::Scale => {
                        let scaled = (0..).zip(of(0)).map(|(i, x)| {
                            x.wrapping_mul(k.wrapping_mul(2).wrapping_add(3)).wrapping_add(i).wrapping_add(1)
                        });
                        (places[0], scaled.collect())
                    }
                    Kernel::Pick => {
                        let picked = of(1 + *k as usize).into_iter();
                        (places[0], picked.map(|x| x.wrapping_mul(747_796_405).wrapping_add(*k)).collect())
                    }
                    Kernel::Peek => (places[1], of(0).into_iter().map(|x| step(x, 0)).collect()),
                }
            }
            Op::Copy { from, to, .. } => (*to, read(stores, *from)),
            Op::Fill(to, word) => (*to, vec![*word; WORDS]),
            Op::Update(to, seed) => (*to, update(*seed)),
        };
        let (store, block) = self.locate(to);
        stores[store][block * WORDS..(block + 1) * WORDS].copy_from_slice(&words);
    }
}

/// The words of an update.
pub fn update(seed: u32) -> Vec<u32> {
    (0..WORDS as u32).map(|i| seed.wrapping_mul(48_271).wrapping_add(i)).collect()
}

impl Op {
    /// What it really reads and writes.
    pub fn touches(&self) -> (Vec<Place>, Vec<Place>) {
        match self {
            Op::Dispatch { kernel, places, k, indirect, .. } => {
                let (mut reads, writes) = match kernel {
                    Kernel::Write => (vec![], vec![places[0]]),
                    Kernel::Step | Kernel::Far | Kernel::Peek => (vec![places[0]], vec![places[1]]),
                    Kernel::Add => (vec![places[0], places[1]], vec![places[2]]),
                    Kernel::Scale => (vec![places[0]], vec![places[0]]),
                    Kernel::Pick => (vec![places[1 + *k as usize]], vec![places[0]]),
                };
                reads.extend(indirect);
                (reads, writes)
            }
            Op::Copy { from, to, .. } => (vec![*from], vec![*to]),
            Op::Fill(to, _) | Op::Update(to, _) => (vec![], vec![*to]),
        }
    }
}
