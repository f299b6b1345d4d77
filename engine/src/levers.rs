//! The options that say how a token reaches the device. Those that change a bit of a logit are `--fusion`, `--tuning`,
//! `--prompt-batch`, `--matrix` and `--attention` (docs/levers.md); no other does.

use clap::{Args, ValueEnum};

use crate::decode::{Matrices, Setup};
use crate::error::Error;
use crate::plan::{Fusion, Handoff, Logits, Tuning};
use crate::vk::{Barriers, Descriptors, Levers, Record, Submit};

/// Options of every command that decodes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Levers")]
pub struct LeverArgs {
    /// When commands are recorded: once, for every token, into new command buffers for every token, or once and
    /// submitted for many tokens at a time, of which the device chooses each next one.
    #[arg(long, value_enum, default_value_t = RecordArg::Reuse)]
    pub record: RecordArg,
    /// Don't promise that a recording for one token is submitted once.
    #[arg(long)]
    pub no_once: bool,
    /// Where barriers are: after every dispatch, as a naive application has them, or only where one is due.
    #[arg(long, value_enum, default_value_t = BarriersArg::Every)]
    pub barriers: BarriersArg,
    /// What is submitted at once.
    #[arg(long, value_enum, default_value_t = SubmitArg::Token)]
    pub submit: SubmitArg,
    /// When descriptor sets are written: once, or with each recording, from a pool that is reset or a new one.
    #[arg(long, value_enum, default_value_t = DescriptorsArg::Baked)]
    pub descriptors: DescriptorsArg,
    /// Whether weights share allocations or each tensor has its own.
    #[arg(long, value_enum, default_value_t = MemoryArg::Arena)]
    pub memory: MemoryArg,
    /// Which steps are made one dispatch.
    #[arg(long, value_enum, default_value_t = FusionArg::None)]
    pub fusion: FusionArg,
    /// Fail where `--fusion persistent` does not do this model on this device, instead of taking `all`.
    #[arg(long)]
    pub no_fallback: bool,
    /// Let every kernel return at once: what is left is launch and barrier. Results mean nothing.
    #[arg(long)]
    pub null_kernels: bool,
    /// Independent sequences decoded side by side.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub sequences: u32,
    /// How a step of `--fusion all` is told that the one before has ended: by a barrier between the dispatches, or by the values
    /// that it reads, for which its workgroups wait by themselves, with their weights on the way. Vulkan does not promise that a device runs
    /// the workgroups of earlier dispatches first, as that needs it; waits are bounded, and one in vain is an error.
    #[arg(long, value_enum, default_value_t = HandoffArg::Barriers)]
    pub handoff: HandoffArg,
    /// Leave out the waits of kernels for each other, in the resident kernel and with `--handoff values`: a control, whose
    /// numbers are wrong on a GPU.
    #[arg(long)]
    pub no_grid_barrier: bool,
    /// Leave out the loads of the next step's weights before each of those barriers.
    #[arg(long)]
    pub no_prefetch: bool,
    /// Most tokens of a prompt that are computed at once, by kernels that read a matrix once for all of them; 0 for one
    /// token after the other, as decoding does. The logits of both agree closely, not bit for bit, so what compares
    /// digests leaves this at 0. One sequence only.
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=4096))]
    pub prompt_batch: u32,
    /// What the products of such a batch are computed with: the device's cooperative matrices (VK_KHR_cooperative_matrix), which
    /// round both factors to halves, or float arithmetic; auto takes the first where the device has them and halves hold the
    /// model's weights.
    #[arg(long, value_enum, default_value_t = MatrixArg::Auto)]
    pub matrix: MatrixArg,
    /// What fused attention of one token is computed with: the device's cooperative matrices or float arithmetic; auto takes the
    /// first on NVIDIA's driver where the device has a shape that suits and four or more query heads share a key, unless a
    /// prompt is computed in batches.
    #[arg(long, value_enum, default_value_t = MatrixArg::Auto)]
    pub attention: MatrixArg,
    /// Sizes of the kernels, as name=value pairs [names: threads, groups, wide-threads, chain-threads, lanes, units,
    /// attention-threads, tile, key-positions, attention-groups, prefetch, prefetch-output, resident-groups, resident-threads; of --matrix coop: coop-rows,
    /// coop-tokens, coop-sub-rows, coop-sub-tokens, coop-depth].
    #[arg(long, value_name = "NAME=N,...")]
    pub tuning: Option<String>,
}

impl LeverArgs {
    /// The session's setup, for a device whose own shapes are these.
    pub fn setup(&self, own: Tuning) -> Result<Setup, Error> {
        let tuning = self.tuning.as_deref().map(|text| parse_tuning(text, own)).transpose()?;
        Ok(Setup {
            levers: Levers {
                record: self.record.into(),
                once: !self.no_once,
                submit: match self.submit {
                    SubmitArg::Op => Submit::Op,
                    SubmitArg::Token => Submit::Token,
                },
                descriptors: match self.descriptors {
                    DescriptorsArg::Alloc => Descriptors::Alloc,
                    DescriptorsArg::Pool => Descriptors::Pool,
                    DescriptorsArg::Baked => Descriptors::Baked,
                },
                barriers: match self.barriers {
                    BarriersArg::Every => Barriers::Every,
                    BarriersArg::Tracked => Barriers::Tracked,
                },
                null_kernels: self.null_kernels,
                sequences: self.sequences,
            },
            fusion: match self.fusion {
                FusionArg::None => Fusion::None,
                FusionArg::Norm => Fusion::Norm,
                FusionArg::Rope => Fusion::Rope,
                FusionArg::Ffn => Fusion::Ffn,
                FusionArg::All => Fusion::All,
                FusionArg::Persistent => Fusion::Persistent,
            },
            handoff: match self.handoff {
                HandoffArg::Barriers => Handoff::Barriers,
                HandoffArg::Values => Handoff::Values,
            },
            tensor_allocations: self.memory == MemoryArg::Tensor,
            tuning,
            no_grid_barrier: self.no_grid_barrier,
            no_prefetch: self.no_prefetch,
            prompt_batch: self.prompt_batch,
            prompt_logits: Logits::Last,
            matrices: self.matrix.into(),
            attention: self.attention.into(),
        })
    }
}

/// A tuning with what the text changes in it.
pub(crate) fn parse_tuning(text: &str, own: Tuning) -> Result<Tuning, Error> {
    let mut tuning = own;
    let (f, c) = (&mut tuning.fused, &mut tuning.coop);
    for pair in text.split(',') {
        let wrong =
            || Error::Usage(format!("--tuning: {pair:?} is not a name=number that this engine knows"));
        let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
        let value: u32 = value.parse().map_err(|_| wrong())?;
        // What a size is a multiple of, and at most.
        let (field, unit, most) = match name {
            "threads" => (&mut f.threads, 1, 1 << 16),
            "groups" => (&mut f.groups, 1, 1 << 16),
            "wide-threads" => (&mut f.wide_threads, 1, 1 << 16),
            "chain-threads" => (&mut f.chain_threads, 1, 1 << 16),
            "prefetch" => (&mut f.prefetch, 1, 1 << 10),
            "prefetch-output" => (&mut f.prefetch_output, 1, 1 << 10),
            "lanes" => (&mut f.lanes, 1, 1 << 16),
            "units" => (&mut f.units, 1, 1 << 16),
            "attention-threads" => (&mut f.attention_threads, 8, 1024),
            "tile" => (&mut f.tile, 8, 1024),
            "key-positions" => (&mut f.key_positions, 1, 16),
            "attention-groups" => (&mut f.attention_groups, 1, 1 << 16),
            "resident-groups" => (&mut f.resident_groups, 1, 1 << 16),
            "resident-threads" => (&mut f.resident_threads, 8, 1024),
            "coop-rows" => (&mut c.rows, 1, 1 << 16),
            "coop-tokens" => (&mut c.tokens, 1, 1 << 16),
            "coop-sub-rows" => (&mut c.sub_rows, 1, 1 << 16),
            "coop-sub-tokens" => (&mut c.sub_tokens, 1, 1 << 16),
            "coop-depth" => (&mut c.depth, 1, 1 << 16),
            _ => return Err(wrong()),
        };
        let halving = name == "resident-threads" && !value.is_power_of_two();
        if (value == 0 && !name.starts_with("prefetch"))
            || value > most
            || !value.is_multiple_of(unit)
            || halving
        {
            return Err(Error::Usage(format!("--tuning: {pair:?} is outside what makes sense")));
        }
        *field = value;
    }
    Ok(tuning)
}

macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }
    };
}

choices! {
    /// `--record`.
    RecordArg {
        /// Afresh for every token.
        Each,
        /// Afresh for every token, into newly allocated command buffers.
        Realloc,
        /// Once, and submitted again for every token.
        Reuse,
        /// Once, and submitted for many tokens at a time.
        Ahead,
    }
}

choices! {
    /// `--barriers`.
    BarriersArg {
        /// After every step.
        Every,
        /// Where one is due.
        Tracked,
    }
}

choices! {
    /// `--submit`.
    SubmitArg {
        /// Each step alone.
        Op,
        /// A token.
        Token,
    }
}

choices! {
    /// `--descriptors`.
    DescriptorsArg {
        /// From a new pool with each recording.
        Alloc,
        /// From a pool that is reset with each recording.
        Pool,
        /// Once.
        Baked,
    }
}

choices! {
    /// `--memory`.
    MemoryArg {
        /// An allocation for each tensor.
        Tensor,
        /// Few large allocations.
        Arena,
    }
}

choices! {
    /// `--matrix`.
    MatrixArg {
        /// Cooperative matrices where they are there and suit the model.
        Auto,
        /// Float arithmetic.
        Plain,
        /// Cooperative matrices.
        Coop,
    }
}

choices! {
    /// `--fusion`.
    FusionArg {
        /// One dispatch for each operation.
        None,
        /// Norms with the projections that follow.
        Norm,
        /// QK norm, RoPE, writes to the cache and attention.
        Rope,
        /// Gate, up and activation; residuals.
        Ffn,
        /// All of these, and the three projections of the attention: five dispatches a layer.
        All,
        /// All layers in one resident dispatch.
        Persistent,
    }
}

choices! {
    /// `--handoff`.
    HandoffArg {
        /// A barrier.
        Barriers,
        /// The values themselves.
        Values,
    }
}

impl From<MatrixArg> for Matrices {
    fn from(matrix: MatrixArg) -> Self {
        match matrix {
            MatrixArg::Auto => Self::Auto,
            MatrixArg::Plain => Self::Plain,
            MatrixArg::Coop => Self::Cooperative,
        }
    }
}

impl From<RecordArg> for Record {
    fn from(record: RecordArg) -> Self {
        match record {
            RecordArg::Each => Self::Each,
            RecordArg::Realloc => Self::Realloc,
            RecordArg::Reuse => Self::Reuse,
            RecordArg::Ahead => Self::Ahead,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuning_changes_what_it_names_and_refuses_what_it_does_not_know() {
        let t = parse_tuning("threads=128,resident-groups=66", Tuning::GPU).unwrap();
        assert_eq!((t.fused.threads, t.fused.resident_groups), (128, 66));
        assert_eq!(t.fused.groups, Tuning::GPU.fused.groups);
        for bad in ["threads", "tile=100", "threads=0", "speed=9", "groups=-1", ""] {
            assert!(parse_tuning(bad, Tuning::GPU).is_err(), "{bad:?}");
        }
    }
}
