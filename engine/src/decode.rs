//! Decoding on a device: load weights, then one token a step.
//!
//! A session holds one sequence. Each step writes position and token, submits the plan's commands, waits, and copies
//! the logits out. The clock runs over exactly that; what callers do with the logits (hashing, scoring, printing) is
//! not in it.

use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::memory;
use crate::model::{Config, Model, Rope};
use crate::plan::{self, Options, Space};
use crate::results;
use crate::vk::{self, Device, Program, Record, Uploader};
use crate::weights;

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

/// A model on a device, with one sequence.
pub struct Session {
    program: Program,
    context: u32,
    vocabulary: u32,
    position: u32,
    logits: Vec<f32>,
    digest: blake3::Hasher,
    steps: u64,
    wall: Duration,
    cpu: Duration,
}

impl Session {
    /// Plans, allocates and uploads. `context` is the most tokens that a sequence may have.
    pub fn new(device: &Rc<Device>, model: &Model<'_>, context: u32, record: Record) -> Result<Self, Error> {
        let limits = device.limits();
        let placement = plan::place(model, &limits)?;
        let options = Options { context, tuning: device.tuning(), limits };
        let plan = plan::decode(model, &placement, &options)?;
        memory::check(model, &placement, &plan, &options, device.memory_available())?;
        let mut uploader = Uploader::new(device, u64::MAX)?;
        let weights = weights::upload(device, model, &placement, &mut uploader)?;
        let program = Program::new(device, plan, weights, record)?;
        let config = &model.config;
        for (span, rope) in plan::rope_tables(config, context, &limits).iter().zip(&config.ropes) {
            let table = rope_table(config, *rope, context);
            let constants = program.buffer(Space::Constants);
            uploader.upload(constants, span.offset, bytemuck::cast_slice(&table))?;
        }
        let vocabulary = model.config.vocabulary;
        Ok(Self {
            program,
            context,
            vocabulary,
            position: 0,
            logits: vec![0.0; vocabulary as usize],
            digest: blake3::Hasher::new(),
            steps: 0,
            wall: Duration::ZERO,
            cpu: Duration::ZERO,
        })
    }

    /// Forgets the sequence; counters and digest go on.
    pub fn reset(&mut self) {
        self.position = 0;
    }

    /// Forgets how the steps so far went: the next ones are counted and timed afresh, and hashed with the others.
    pub fn restart_clock(&mut self) {
        (self.steps, self.wall, self.cpu) = (0, Duration::ZERO, Duration::ZERO);
    }

    /// Tokens in the sequence.
    pub fn position(&self) -> u32 {
        self.position
    }

    /// The most tokens that the sequence may have.
    pub fn context(&self) -> u32 {
        self.context
    }

    /// Appends `token` to the sequence and returns the logits of the next one.
    pub fn step(&mut self, token: u32) -> Result<&[f32], Error> {
        if token >= self.vocabulary {
            return Err(Error::Token { token, vocabulary: self.vocabulary });
        }
        if self.position >= self.context {
            return Err(Error::ContextFull(self.context));
        }
        let start = Instant::now();
        let cpu_start = thread_time();
        self.program.set_step(self.position, token);
        self.program.submit()?;
        let cpu_end = thread_time();
        self.program.wait()?;
        self.program.read(0, bytemuck::cast_slice_mut(&mut self.logits));
        self.wall += start.elapsed();
        self.cpu += cpu_end.saturating_sub(cpu_start);
        self.steps += 1;
        self.position += 1;
        update_digest(&mut self.digest, &self.logits);
        Ok(&self.logits)
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
            gpu_us_per_token: None,
        }
    }
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
            let (sin, cos) = c.rope_angle(rope, position, pair).sin_cos();
            table.extend([cos as f32, sin as f32]);
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
