//! Decoding on a device: load weights, then one token a step, or a prompt in batches.
//!
//! A session holds one sequence. Each step writes position and token, submits the plan's commands, waits, and copies
//! the logits out. The clock runs over exactly that; what callers do with the logits (hashing, scoring, printing) is
//! not in it.

mod attention;
mod batch;
mod digest;

use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::memory;
use crate::model::{Config, Model, Rope};
use crate::plan::{self, Fusion, Handoff, Limits, Options, Placement, Space, Tuning};
use crate::results;
use crate::vk::{self, Buffer, Device, Levers, Program, Record, Uploader};
use crate::weights;
use attention::Choice;
use batch::{Batch, batch_tokens};

/// Why a session cannot be made or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan cannot be made.
    #[error(transparent)]
    Plan(#[from] plan::Error),
    /// Vulkan failed.
    #[error(transparent)]
    Vulkan(#[from] vk::Error),
    /// A tensor with an infinite or undefined scale, or an infinite or undefined half.
    #[error("tensor {tensor} is damaged: a number of its block {block} that must be finite is not")]
    Scale {
        /// The tensor.
        tensor: String,
        /// Number of the block.
        block: u64,
    },
    /// The device's memory is too small.
    #[error(transparent)]
    TooLarge(#[from] memory::TooLarge),
    /// A kernel waited for others in vain.
    #[error(
        "a kernel gave up waiting for others: this device does not run all workgroups of --fusion persistent at once, or not \
         those of earlier dispatches first as --handoff values needs it; use --fusion all --handoff barriers, or fewer \
         workgroups with --tuning"
    )]
    GaveUp,
    /// Cooperative matrices that are not there, or that do not suit the model.
    #[error("--{0} coop: {1}; use --{0} auto or plain")]
    NotCooperative(&'static str, String),
    /// Tokens ahead of the host, in a session that was not made for it.
    #[error("only a session with --record ahead chooses tokens on the device")]
    NotAhead,
    /// More tokens than the context holds.
    #[error("the context of {0} tokens is full")]
    ContextFull(u32),
    /// A token id that the vocabulary does not have.
    #[error("token {token} is outside the vocabulary of {vocabulary}")]
    Token {
        /// The id.
        token: u32,
        /// Number of tokens.
        vocabulary: u32,
    },
}

/// What the products of a prompt's batches are computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Matrices {
    /// With the device's cooperative matrices where it has them and halves hold the weights, else with float arithmetic.
    #[default]
    Auto,
    /// With float arithmetic.
    Plain,
    /// With cooperative matrices, or not at all.
    Cooperative,
}

/// How a session decodes: everything that can be varied without changing what is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Setup {
    /// How commands reach the driver.
    pub levers: Levers,
    /// Which steps are made one.
    pub fusion: Fusion,
    /// How fused steps hand over to each other.
    pub handoff: Handoff,
    /// Whether each tensor has an allocation of its own.
    pub tensor_allocations: bool,
    /// Workgroup shapes other than the device's own.
    pub tuning: Option<Tuning>,
    /// Leaves the waits of kernels for each other out: the control, whose numbers must be wrong on a GPU.
    pub no_grid_barrier: bool,
    /// Leaves the loads before those barriers out.
    pub no_prefetch: bool,
    /// Most tokens of a prompt that are computed at once; 0 for one after the other.
    pub prompt_batch: u32,
    /// Of which tokens of a batch the logits are computed.
    pub prompt_logits: plan::Logits,
    /// What a batch's products are computed with.
    pub matrices: Matrices,
    /// What fused attention of one token is computed with.
    pub attention: Matrices,
}

impl From<Record> for Setup {
    fn from(record: Record) -> Self {
        Self { levers: Levers { record, ..Levers::default() }, ..Self::default() }
    }
}

/// A model's weights on a device, which several sessions may share.
struct Loaded {
    placement: Placement,
    limits: Limits,
    buffers: Vec<Rc<Buffer>>,
}

/// A model on a device, with one sequence or several side by side.
pub struct Session {
    program: Program,
    /// The program of a batch of a prompt.
    prompt: Option<Program>,
    /// What its products are computed with, in words.
    matrices: String,
    attention: Choice,
    weights: Rc<Loaded>,
    setup: Setup,
    context: u32,
    vocabulary: u32,
    position: u32,
    logits: Vec<f32>,
    digest: blake3::Hasher,
    /// If all logits so far were blank; none before the first.
    blank: Option<bool>,
    steps: u64,
    wall: Duration,
    cpu: Duration,
    gpu: Duration,
    timed: bool,
}

impl Session {
    /// Plans, allocates and uploads. `context` is the most tokens that a sequence may have.
    pub fn new(device: &Rc<Device>, model: &Model<'_>, context: u32, record: Record) -> Result<Self, Error> {
        Self::with(device, model, context, &record.into())
    }

    /// The same with every choice.
    pub fn with(device: &Rc<Device>, model: &Model<'_>, context: u32, setup: &Setup) -> Result<Self, Error> {
        let mut limits = device.limits();
        if setup.tensor_allocations {
            limits.target = 1;
        } else if setup.fusion == Fusion::Persistent {
            limits.target = limits.allocation;
        }
        let placement = plan::place(model, &limits)?;
        let (options, choice) = options(device, &model.config, context, setup, limits)?;
        let plan = plan::decode(model, &placement, &options)?;
        let batch = Batch::new(device, model, &placement, &options, setup)?;
        // What a batch takes beside the caches and tables that it shares.
        let apart = batch.as_ref().map_or(0, |batch| batch.plan.bytes(Space::Arena));
        memory::check(model, &placement, &plan, &options, device.memory_available().saturating_sub(apart))?;
        let mut uploader = Uploader::new(device, u64::MAX)?;
        let buffers = weights::upload(device, model, &placement, &mut uploader)?;
        let buffers = buffers.into_iter().map(Rc::new).collect();
        let loaded = Rc::new(Loaded { placement, limits, buffers });
        Self::on(device, model, context, setup, loaded, (plan, batch, choice), &mut uploader)
    }

    /// A session of its own beside this one, of the same model on the same device, that shares the weights.
    pub fn beside(
        &self,
        device: &Rc<Device>,
        model: &Model<'_>,
        context: u32,
        setup: &Setup,
    ) -> Result<Self, Error> {
        let loaded = Rc::clone(&self.weights);
        let (options, choice) = options(device, &model.config, context, setup, loaded.limits)?;
        let plan = plan::decode(model, &loaded.placement, &options)?;
        let batch = Batch::new(device, model, &loaded.placement, &options, setup)?;
        let mut uploader = Uploader::new(device, u64::MAX)?;
        Self::on(device, model, context, setup, loaded, (plan, batch, choice), &mut uploader)
    }

    fn on(
        device: &Rc<Device>,
        model: &Model<'_>,
        context: u32,
        setup: &Setup,
        weights: Rc<Loaded>,
        (plan, batch, attention): (plan::Plan, Option<Batch>, Choice),
        uploader: &mut Uploader,
    ) -> Result<Self, Error> {
        let mut program = Program::new(device, plan, &weights.buffers, setup.levers)?;
        let matrices = batch.as_ref().map_or(String::new(), |batch| batch.matrices.clone());
        let levers = Levers { record: prompt_record(setup.levers.record), ..setup.levers };
        let prompt = batch.map(|batch| program.beside(batch.plan, levers)).transpose()?;
        let config = &model.config;
        for (span, rope) in plan::rope_tables(config, context, &weights.limits).iter().zip(&config.ropes) {
            let table = rope_table(config, *rope, context);
            let constants = program.buffer(Space::Constants);
            uploader.upload(constants, span.offset, bytemuck::cast_slice(&table))?;
        }
        for (span, words) in &program.plan().uploads {
            uploader.upload(program.buffer(span.space), span.offset, bytemuck::cast_slice(words))?;
        }
        if program.has(Space::Control) {
            program.clear(Space::Control)?;
        }
        if let Some(fragment) = attention.fragment {
            let order = plan::block_order(config, context, &weights.limits, fragment);
            let words = plan::block_order_words(&attention.places);
            uploader.upload(program.buffer(Space::Constants), order.offset, bytemuck::cast_slice(&words))?;
            // Its products read whole blocks, and what is not a number is none times a weight of zero, too.
            let spaces = program.plan().buffers.iter().map(|(space, _)| *space);
            let caches: Vec<Space> = spaces.filter(|space| matches!(space, Space::Cache(_))).collect();
            for space in caches {
                program.clear(space)?;
            }
        }
        let vocabulary = model.config.vocabulary;
        Ok(Self {
            program,
            prompt,
            matrices,
            attention,
            weights,
            setup: *setup,
            context,
            vocabulary,
            position: 0,
            logits: vec![0.0; vocabulary as usize],
            digest: blake3::Hasher::new(),
            blank: None,
            steps: 0,
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
            gpu: Duration::ZERO,
            timed: false,
        })
    }

    /// Times every token on the device's clock from now on.
    pub fn time_tokens(&mut self) -> Result<(), Error> {
        self.timed = true;
        Ok(self.program.time_tokens()?)
    }

    /// What is wrong with the device, where attention is not computed on its cooperative matrices and would be by itself.
    pub fn attention_refused(&self) -> Option<&str> {
        self.attention.refused.as_deref()
    }

    /// The buffers of the weights.
    pub fn weights(&self) -> &[Rc<Buffer>] {
        &self.weights.buffers
    }

    /// The program behind the session.
    pub fn program(&mut self) -> &mut Program {
        &mut self.program
    }

    /// Forgets the sequence; counters and digest go on.
    pub fn reset(&mut self) {
        self.position = 0;
    }

    /// Forgets the tokens from `position` on; what came before stays in the cache.
    pub fn rewind(&mut self, position: u32) {
        self.position = self.position.min(position);
    }

    /// Forgets how the steps so far went: the next ones are counted and timed afresh, and hashed with the others.
    pub fn restart_clock(&mut self) {
        self.steps = 0;
        (self.wall, self.cpu, self.gpu) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    }

    /// Tokens in the sequence.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// The most tokens that the sequence may have.
    pub fn context(&self) -> u32 {
        self.context
    }

    /// Appends `token` to the sequence and returns the logits of the next one. Of several sequences, number i gets the
    /// token i places on in the vocabulary; the logits are those of the first.
    pub fn step(&mut self, token: u32) -> Result<&[f32], Error> {
        self.check(token, 1)?;
        let start = Instant::now();
        let cpu_start = thread_time();
        for sequence in 0..self.setup.levers.sequences {
            let token = ((u64::from(token) + u64::from(sequence)) % u64::from(self.vocabulary)) as u32;
            self.program.set_step(sequence, &[self.position, token]);
        }
        self.program.submit(self.position + 1, 1, true)?;
        let cpu_end = thread_time();
        self.program.wait()?;
        self.program.read(Space::Readback, 0, 0, bytemuck::cast_slice_mut(&mut self.logits));
        self.wall += start.elapsed();
        self.cpu += cpu_end.saturating_sub(cpu_start);
        self.passed(1)?;
        self.note();
        Ok(&self.logits)
    }

    /// Appends all of `tokens` and returns the logits of what follows them, which alone are hashed; in batches if the
    /// session was made for that, else one after the other with the logits of each hashed.
    pub fn prompt(&mut self, tokens: &[u32]) -> Result<&[f32], Error> {
        let Some(batch) = self.batch(tokens)? else {
            for &token in tokens {
                self.step(token)?;
            }
            return Ok(&self.logits);
        };
        for tokens in tokens.chunks(batch) {
            let rows = self.submit_batch(tokens)?;
            self.read_row(rows - 1);
        }
        if !tokens.is_empty() {
            self.note();
        }
        Ok(&self.logits)
    }

    /// Appends all of `tokens` and hands the logits behind each, with its index among them, to `each`; all are hashed. In
    /// batches if the session was made for that with [`plan::Logits::All`], else one after the other.
    pub fn score(&mut self, tokens: &[u32], mut each: impl FnMut(usize, &[f32])) -> Result<(), Error> {
        let batch = self.batch(tokens)?.filter(|_| self.setup.prompt_logits == plan::Logits::All);
        let Some(batch) = batch else {
            for (i, &token) in tokens.iter().enumerate() {
                each(i, self.step(token)?);
            }
            return Ok(());
        };
        let mut done = 0;
        for tokens in tokens.chunks(batch) {
            for row in 0..self.submit_batch(tokens)? {
                self.read_row(row);
                self.note();
                each(done, &self.logits);
                done += 1;
            }
        }
        Ok(())
    }

    /// Appends all of `tokens` as [`Session::prompt`] does and returns the time of each kind of step on the device's clock,
    /// in the order of their first appearance; none without batches.
    pub fn time_prompt(&mut self, tokens: &[u32]) -> Result<Vec<results::PromptStep>, Error> {
        let mut kinds: Vec<results::PromptStep> = Vec::new();
        let Some(batch) = self.batch(tokens)? else { return Ok(kinds) };
        if let Some(program) = &mut self.prompt {
            program.time_steps()?;
        }
        for tokens in tokens.chunks(batch) {
            self.submit_batch(tokens)?;
            let Some(program) = &self.prompt else { continue };
            let times = program.times()?;
            for (step, span) in program.plan().steps.iter().zip(times[2..].chunks_exact(2)) {
                let us = (span[1] - span[0]) / 1e3;
                match kinds.iter_mut().find(|kind| kind.step == step.name) {
                    Some(kind) => (kind.count, kind.us) = (kind.count + 1, kind.us + us),
                    None => kinds.push(results::PromptStep { step: step.name.to_owned(), count: 1, us }),
                }
            }
        }
        if let Some(program) = &mut self.prompt {
            program.time_nothing();
        }
        Ok(kinds)
    }

    /// How many of `tokens`, all of which must fit, go into a batch; none if this session has no batches.
    fn batch(&self, tokens: &[u32]) -> Result<Option<usize>, Error> {
        if self.prompt.is_none() {
            return Ok(None);
        }
        for &token in tokens {
            self.check(token, tokens.len() as u32)?;
        }
        Ok(Some(self.prompt_batch() as usize))
    }

    /// Computes a batch; returns how many rows of logits it left.
    fn submit_batch(&mut self, tokens: &[u32]) -> Result<usize, Error> {
        let Some(program) = &mut self.prompt else { return Ok(0) };
        let (start, cpu_start) = (Instant::now(), thread_time());
        program.set_step(0, &[&[self.position, tokens.len() as u32], tokens].concat());
        program.submit(self.position + tokens.len() as u32, 1, true)?;
        self.cpu += thread_time().saturating_sub(cpu_start);
        program.wait()?;
        self.wall += start.elapsed();
        self.position += tokens.len() as u32;
        self.steps += tokens.len() as u64;
        Ok(if self.setup.prompt_logits == plan::Logits::All { tokens.len() } else { 1 })
    }

    /// Copies a row of a batch's logits out.
    fn read_row(&mut self, row: usize) {
        let Some(program) = &self.prompt else { return };
        let start = Instant::now();
        let offset = row as u64 * 4 * u64::from(self.vocabulary);
        program.read(Space::Readback, 0, offset, bytemuck::cast_slice_mut(&mut self.logits));
        self.wall += start.elapsed();
    }

    /// Most tokens of a prompt that this session computes at once; 0 for one after the other.
    pub fn prompt_batch(&self) -> u32 {
        self.prompt.as_ref().map_or(0, |program| batch_tokens(program.plan()))
    }

    /// How this session computes prompts in batches; counts are zero before the first. None without batches.
    pub fn batches(&self) -> Option<results::Batches> {
        let program = self.prompt.as_ref()?;
        let counts = program.counts();
        Some(results::Batches {
            tokens: self.prompt_batch().into(),
            dispatches: counts.dispatches,
            barriers: counts.barriers,
            matrices: self.matrices.clone(),
        })
    }

    /// Appends `token` and then, `count` - 1 times, the likeliest token, all chosen on the device and submitted at once;
    /// returns the `count` tokens that were chosen. With `logits`, each token is submitted alone and its logits are read
    /// and hashed. Needs [`Record::Ahead`].
    pub fn ahead(&mut self, token: u32, count: u32, logits: bool) -> Result<Vec<u32>, Error> {
        if self.setup.levers.record != Record::Ahead {
            return Err(Error::NotAhead);
        }
        self.check(token, count)?;
        let start = Instant::now();
        let cpu_start = thread_time();
        for sequence in 0..self.setup.levers.sequences {
            self.program.set_step(sequence, &[self.position, token]);
        }
        let first = self.position;
        let mut cpu = Duration::ZERO;
        if logits {
            for i in 0..count {
                self.program.submit(first + i + 1, 1, true)?;
                self.program.wait()?;
                self.program.read(Space::Readback, 0, 0, bytemuck::cast_slice_mut(&mut self.logits));
                self.note();
                self.passed(1)?;
            }
        } else {
            self.program.submit(first + count, count, false)?;
            cpu = thread_time().saturating_sub(cpu_start);
            self.program.wait()?;
            self.passed(count)?;
        }
        let mut chosen = vec![0u32; count as usize];
        let offset = 4 * u64::from(first);
        self.program.read(Space::Tokens, 0, offset, bytemuck::cast_slice_mut(&mut chosen));
        self.wall += start.elapsed();
        self.cpu += cpu;
        Ok(chosen)
    }

    fn check(&self, token: u32, count: u32) -> Result<(), Error> {
        if token >= self.vocabulary {
            return Err(Error::Token { token, vocabulary: self.vocabulary });
        }
        if self.context - self.position < count {
            return Err(Error::ContextFull(self.context));
        }
        Ok(())
    }

    /// Counts tokens that are done, and looks whether the resident kernel gave up.
    fn passed(&mut self, count: u32) -> Result<(), Error> {
        if let Some(span) = self.program.plan().failed {
            let mut word = [0u8; 4];
            self.program.read(span.space, 0, span.offset, &mut word);
            if word != [0; 4] {
                return Err(Error::GaveUp);
            }
        }
        if self.timed && count == 1 {
            let end = self.program.times()?.get(1).copied().unwrap_or(0.0);
            self.gpu += Duration::from_nanos(end as u64);
        }
        self.steps += u64::from(count);
        self.position += count;
        Ok(())
    }

    /// The logits of the last step; zeros before the first.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// BLAKE3 over the little-endian bits of every logit vector so far, hexadecimal.
    pub fn digest(&self) -> String {
        self.digest.finalize().to_hex().to_string()
    }

    /// How the steps so far went.
    pub fn decode(&self) -> results::Decode {
        let counts = self.program.counts();
        let seconds = self.wall.as_secs_f64();
        let steps = self.steps as f64;
        results::Decode {
            tokens: self.steps,
            seconds,
            tok_s: if seconds > 0.0 { steps / seconds } else { 0.0 },
            dispatches_per_token: counts.dispatches,
            barriers_per_token: counts.barriers,
            submits_per_token: counts.submits,
            cpu_us_per_token: if self.steps > 0 { self.cpu.as_secs_f64() * 1e6 / steps } else { 0.0 },
            gpu_us_per_token: (self.timed && self.steps > 0).then(|| self.gpu.as_secs_f64() * 1e6 / steps),
            attention: self.attention.fragment.map(|f| format!("{}x{}x{}", f.m, f.n, f.k)),
        }
    }
}

/// What is planned for, and what attention is computed on.
fn options(
    device: &Rc<Device>,
    config: &Config,
    context: u32,
    setup: &Setup,
    limits: Limits,
) -> Result<(Options, Choice), Error> {
    let options = Options {
        features: device.features(),
        fusion: setup.fusion,
        handoff: setup.handoff,
        sample: setup.levers.record == Record::Ahead,
        no_grid_barrier: setup.no_grid_barrier,
        no_prefetch: setup.no_prefetch,
        ..Options::new(context, setup.tuning.unwrap_or_else(|| device.tuning()), limits)
    };
    let choice = attention::choose(device, config, setup, &options)?;
    Ok((Options { attention: choice.fragment, ..options }, choice))
}

/// The device cannot choose a prompt's tokens, so nothing is submitted ahead.
fn prompt_record(record: Record) -> Record {
    if record == Record::Ahead { Record::Reuse } else { record }
}

/// Adds a logit vector to a digest as [`Session::digest`] defines it.
pub fn update_digest(digest: &mut blake3::Hasher, logits: &[f32]) {
    if cfg!(target_endian = "little") {
        digest.update(bytemuck::cast_slice(logits));
    } else {
        for value in logits {
            digest.update(&value.to_le_bytes());
        }
    }
}

/// The index of the largest logit; the first of equals.
pub fn argmax(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (i, value) in logits.iter().enumerate() {
        if *value > logits[best] {
            best = i;
        }
    }
    best as u32
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Cosine and sine of every angle that a position of the context needs: `[context][rope_dim / 2][2]`.
fn rope_table(c: &Config, rope: Rope, context: u32) -> Vec<f32> {
    let mut table = Vec::with_capacity(context as usize * c.rope_dim as usize);
    for position in 0..context {
        for pair in 0..c.rope_dim / 2 {
            table.extend(c.rope_cos_sin(rope, position, pair).map(|v| v as f32));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_logits_the_first_wins_and_a_nan_never_does() {
        assert_eq!(argmax(&[1.0, 3.0, 3.0, 2.0]), 1);
        assert_eq!(argmax(&[1.0, f32::NAN, 0.5]), 0);
    }
}
