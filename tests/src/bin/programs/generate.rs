//! Random valid programs.
//!
//! Valid means: every two operations that touch the same bytes, of which one writes, have a barrier, an event, a semaphore or a
//! wait between them; and every bind, push and destruction is one that the specification allows. Which part of it is used is
//! what the seed decides, edges more often than an application would.

use ash::vk::PipelineStageFlags as Stage;
use fastrand::Rng;

use crate::barriers::BARRIERS;
use crate::program::{
    Buffer, Kernel, Memory, Noise, Op, Origin, Place, Program, Recording, Step, WORDS, Way,
};

/// What a device has of what programs may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Host memory can be imported, and so can what is mapped.
    pub host_memory: bool,
    /// Arrays of descriptors may be bound in part, be of variable count, and change after a bind.
    pub arrays: bool,
    /// Shaders may reach memory by addresses.
    pub addresses: bool,
    /// How many queues there are.
    pub queues: usize,
    /// The number of workgroups may lie in memory. Not where results may be wrong: a dispatch of garbage takes hours.
    pub indirect: bool,
    /// What is ignored may be garbage: nothing but the layer and the driver looks.
    pub garbage: bool,
}

/// Blocks of a store.
const STORE: usize = 16;

struct Generator<'a> {
    random: &'a mut Rng,
    abilities: Abilities,
    program: Program,
    stores: Vec<Vec<u32>>,
    /// Touched since everything before was ordered: store, block, and whether written.
    since: Vec<(usize, usize, bool)>,
    /// What this program does more or less of.
    taste: Taste,
    /// What the last dispatch of this recording had pushed, if nothing has come between.
    pushed: Option<Vec<Place>>,
}

/// What a program does more or less of: one that does a bit of everything everywhere never gets far with any of it.
#[derive(Clone, Copy, Debug)]
struct Taste {
    /// Sets may be pushed.
    pushes: bool,
    /// Sets come with layouts that have nothing to do with the pipeline's.
    strange: bool,
    /// One command in so many is one that nothing moves across: an event, a timestamp, a secondary.
    walls: u32,
    /// One operation in so many has a barrier before it that nothing needs.
    needless: u32,
    /// The most commands of a recording.
    longest: usize,
}

impl Taste {
    fn new(random: &mut Rng) -> Taste {
        Taste {
            pushes: random.u32(0..3) == 0,
            strange: random.u32(0..3) == 0,
            walls: [8, 40, 400][random.usize(0..3)],
            needless: random.u32(1..4),
            longest: [8, 24, 60][random.usize(0..3)],
        }
    }
}

/// The program of a seed, on devices with these abilities.
pub fn program(seed: u64, abilities: Abilities) -> Program {
    let mut random = Rng::with_seed(seed);
    let (memories, stores) = memories(&mut random, abilities);
    let buffers = buffers(&mut random, memories.len());
    let program = Program { seed, stores: vec![STORE; stores], memories, buffers, recordings: Vec::new() };
    let (stores, taste) = (program.initial(), Taste::new(&mut random));
    let (since, pushed) = (Vec::new(), None);
    let mut generator = Generator { random: &mut random, abilities, program, stores, since, taste, pushed };
    let recordings = generator.random.usize(1..5);
    for number in 0..recordings {
        let recording = generator.recording(number);
        generator.program.recordings.push(recording);
    }
    generator.program
}

fn memories(random: &mut Rng, abilities: Abilities) -> (Vec<Memory>, usize) {
    let mut stores = 2;
    let mut memories: Vec<Memory> = (0..2).map(|store| Memory { origin: Origin::Own, store }).collect();
    if abilities.host_memory && random.u32(0..3) == 0 {
        // Twice the same pages.
        memories.extend([Memory { origin: Origin::Host(stores), store: stores }; 2]);
        stores += 1;
    }
    if abilities.host_memory && random.u32(0..3) == 0 {
        let mapped = random.usize(0..2);
        memories.push(Memory { origin: Origin::Mapped(mapped), store: memories[mapped].store });
    }
    (memories, stores)
}

fn buffers(random: &mut Rng, memories: usize) -> Vec<Buffer> {
    let buffer = |memory: usize, random: &mut Rng| {
        let first = random.usize(0..STORE - 1);
        Buffer { memory, first, blocks: random.usize(1..=STORE - first) }
    };
    // Each allocation has one that is all of it, and there are some more, which may share bytes with others.
    let mut buffers: Vec<Buffer> =
        (0..memories).map(|memory| Buffer { memory, first: 0, blocks: STORE }).collect();
    for _ in 0..random.usize(1..4) {
        buffers.push(buffer(random.usize(0..memories), random));
    }
    buffers
}

impl Generator<'_> {
    fn recording(&mut self, number: usize) -> Recording {
        let chained = number > 0 && self.random.bool();
        let mut renewed = Vec::new();
        if !chained && number > 0 && self.random.u32(0..3) == 0 {
            // Of memory that only one buffer has, which is all of it.
            let own = |memory: usize, program: &Program| {
                let users = program.buffers.iter().filter(|b| b.memory == memory).count();
                let mapped = program.memories.iter().any(|m| m.origin == Origin::Mapped(memory));
                program.memories[memory].origin == Origin::Own && users == 1 && !mapped
            };
            renewed.extend((0..2).filter(|memory| own(*memory, &self.program)));
        }
        let mut steps = Vec::new();
        self.since.clear();
        self.pushed = None;
        if number > 0 && !chained {
            steps.push(Step::Barrier(0));
        }
        for _ in 0..self.random.usize(3..self.taste.longest) {
            self.step(&mut steps, true);
        }
        Recording {
            renewed,
            ignored: self.abilities.garbage && self.random.bool(),
            chained,
            queue: self.random.usize(0..self.abilities.queues.max(1)),
            steps,
        }
    }

    fn step(&mut self, steps: &mut Vec<Step>, primary: bool) {
        if self.random.u32(0..self.taste.walls) != 0 {
            if self.random.u32(0..self.taste.needless) == 0 {
                self.barrier(steps);
            }
            return self.operation(steps);
        }
        match self.random.u32(0..4) {
            0 => {
                let stages = [
                    Stage::TOP_OF_PIPE,
                    Stage::COMPUTE_SHADER,
                    Stage::TRANSFER,
                    Stage::ALL_COMMANDS,
                    Stage::BOTTOM_OF_PIPE,
                ];
                steps.push(Step::Timestamp(stages[self.random.usize(0..stages.len())]));
            }
            1 if primary => {
                steps.push(Step::Event);
                self.since.clear();
            }
            2 if primary => {
                let mut inner = Vec::new();
                self.pushed = None;
                for _ in 0..self.random.usize(1..6) {
                    self.step(&mut inner, false);
                }
                self.pushed = None;
                steps.push(Step::Secondary(inner));
            }
            _ => steps.push(match self.random.u32(0..5) {
                0 | 1 => Step::Begin,
                2 | 3 => Step::End,
                _ => Step::Label,
            }),
        }
    }

    fn barrier(&mut self, steps: &mut Vec<Step>) {
        let kind = self.random.usize(0..BARRIERS.len());
        steps.push(Step::Barrier(kind));
        if BARRIERS[kind].orders_everything {
            self.since.clear();
        }
    }

    fn place(&mut self) -> Place {
        let buffer = self.random.usize(0..self.program.buffers.len());
        Place { buffer, block: self.random.usize(0..self.program.buffers[buffer].blocks) }
    }

    /// Places of which no two are the same bytes.
    fn apart(&mut self, count: usize) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        while places.len() < count {
            let place = self.place();
            let at = self.program.locate(place);
            if places.iter().all(|other| self.program.locate(*other) != at) {
                places.push(place);
            }
        }
        places
    }

    fn operation(&mut self, steps: &mut Vec<Step>) {
        let op = match self.random.u32(0..10) {
            0 => {
                let places = self.apart(2);
                Op::Copy { from: places[0], to: places[1], second: self.random.bool() }
            }
            1 => {
                let word = if self.random.bool() { 1 } else { self.random.u32(..) };
                Op::Fill(self.place(), word)
            }
            2 => Op::Update(self.place(), self.random.u32(..)),
            _ => self.dispatch(),
        };
        if !matches!(op, Op::Dispatch { way: Way::Push | Way::PushOneByOne | Way::PushTheRest, .. }) {
            // Transfers leave what is pushed, but dispatches that bind otherwise do not.
            if matches!(op, Op::Dispatch { .. }) {
                self.pushed = None;
            }
        }
        let (reads, writes) = op.touches();
        let of = |places: &[Place], write: bool, program: &Program| -> Vec<(usize, usize, bool)> {
            places.iter().map(|p| program.locate(*p)).map(|(s, b)| (s, b, write)).collect()
        };
        let mut touched = of(&reads, false, &self.program);
        touched.extend(of(&writes, true, &self.program));
        let meet =
            |a: &(usize, usize, bool), b: &(usize, usize, bool)| (a.0, a.1) == (b.0, b.1) && (a.2 || b.2);
        if touched.iter().any(|t| self.since.iter().any(|s| meet(s, t))) {
            let all: Vec<usize> = (0..BARRIERS.len()).filter(|n| BARRIERS[*n].orders_everything).collect();
            steps.push(Step::Barrier(all[self.random.usize(0..all.len())]));
            self.since.clear();
        }
        self.program.execute(&op, &mut self.stores);
        self.since.extend(touched);
        steps.push(Step::Op(op));
    }

    fn dispatch(&mut self) -> Op {
        let kernels = [
            Kernel::Write,
            Kernel::Step,
            Kernel::Step,
            Kernel::Add,
            Kernel::Scale,
            Kernel::Far,
            Kernel::Pick,
            Kernel::Peek,
        ];
        let kernel = match kernels[self.random.usize(0..kernels.len())] {
            Kernel::Pick if !self.abilities.arrays => Kernel::Step,
            Kernel::Peek if !self.abilities.addresses => Kernel::Step,
            kernel => kernel,
        };
        let (count, array) = match kernel {
            Kernel::Write | Kernel::Scale => (1, 0),
            Kernel::Step | Kernel::Far | Kernel::Peek => (2, 0),
            Kernel::Add => (3, 0),
            Kernel::Pick => (1, self.random.u32(1..5)),
        };
        let mut places = self.apart(count + array as usize);
        let mut k = self.random.u32(0..9);
        let way = match kernel {
            Kernel::Pick => {
                k %= array;
                Way::Array { count: array, late: self.random.u32(0..4) == 0 }
            }
            Kernel::Far | Kernel::Peek => Way::Plain,
            _ => {
                let ways = [
                    Way::Plain,
                    Way::Plain,
                    Way::Dynamic,
                    Way::Template,
                    Way::Push,
                    Way::PushOneByOne,
                    Way::PushTemplate,
                    Way::PushTheRest,
                ];
                ways[self.random.usize(0..if self.taste.pushes { ways.len() } else { 4 })]
            }
        };
        let pushes = matches!(way, Way::Push | Way::PushOneByOne | Way::PushTheRest);
        if way == Way::PushTheRest {
            // The first place is what an earlier push left, if it can be: then it is not pushed again.
            match &self.pushed {
                Some(before) if count > 1 && !places[1..].contains(&before[0]) => {
                    let at = self.program.locate(before[0]);
                    let apart = places[1..].iter().all(|p| self.program.locate(*p) != at);
                    if apart {
                        places[0] = before[0];
                    }
                }
                _ => {}
            }
        }
        let left = way == Way::PushTheRest && self.pushed.as_ref().is_some_and(|b| b[0] == places[0]);
        let way = if way == Way::PushTheRest && !left { Way::PushOneByOne } else { way };
        self.pushed = pushes.then(|| places.clone());
        let noise = match (kernel, way) {
            (Kernel::Far, _) => {
                let noises = [Noise::None, Noise::Backwards, Noise::StrangeFirst];
                noises[self.random.usize(0..if self.taste.strange { 3 } else { 2 })]
            }
            (_, Way::Plain | Way::Template) => {
                let noises =
                    [Noise::None, Noise::HigherLater, Noise::StrangeFirst, Noise::StrangeHigherFirst];
                noises[self.random.usize(0..if self.taste.strange { 4 } else { 2 })]
            }
            _ => Noise::None,
        };
        // A block of ones that the dispatch itself does not write may be the number of workgroups.
        let indirect = self.abilities.indirect && self.random.u32(0..3) == 0;
        let indirect = if indirect { self.ones(&places) } else { None };
        Op::Dispatch { kernel, places, k, way, noise, short_lived: self.random.bool(), indirect }
    }

    fn ones(&mut self, but: &[Place]) -> Option<Place> {
        let (program, stores) = (&self.program, &self.stores);
        let all = program.buffers.iter().enumerate();
        let places = all.flat_map(|(buffer, b)| (0..b.blocks).map(move |block| Place { buffer, block }));
        let found: Vec<Place> = places
            .filter(|place| {
                let (store, block) = program.locate(*place);
                let free = but.iter().all(|p| program.locate(*p) != (store, block));
                free && stores[store][block * WORDS..][..3] == [1, 1, 1]
            })
            .collect();
        (!found.is_empty()).then(|| found[self.random.usize(0..found.len())])
    }
}
