//! The streams: eight dispatches that depend on each other, and one thing between each two.
//!
//! Everything but what stands between is the same in all streams, so the difference to the stream with nothing in
//! between is what the driver made of seven barriers.

/// Dispatches in each stream.
pub const DISPATCHES: usize = 8;

/// What stands between the dispatches.
pub struct Case {
    /// For the table.
    pub name: &'static str,
    /// Statements of the stream language.
    between: &'static str,
}

/// All cases; the first has nothing in between.
pub const CASES: [Case; 12] = [
    Case { name: "none", between: "" },
    Case { name: "execution only", between: "barrier compute_shader -> compute_shader" },
    Case {
        name: "SHADER_WRITE to SHADER_READ",
        between: "barrier compute_shader/shader_write -> compute_shader/shader_read",
    },
    Case {
        name: "SHADER_WRITE to nothing",
        between: "barrier compute_shader/shader_write -> compute_shader",
    },
    Case { name: "nothing to SHADER_READ", between: "barrier compute_shader -> compute_shader/shader_read" },
    Case {
        name: "the same on a buffer's range",
        between: "buffer-barrier a[0:256] compute_shader/shader_write -> compute_shader/shader_read",
    },
    Case {
        name: "ALL_COMMANDS, MEMORY_READ and WRITE",
        between: "barrier all_commands/memory_read+memory_write -> all_commands/memory_read+memory_write",
    },
    Case {
        name: "to and from TRANSFER",
        between: "barrier compute_shader+all_transfer/shader_read+shader_write+transfer_read+transfer_write -> \
                  compute_shader+all_transfer/shader_read+shader_write+transfer_read+transfer_write",
    },
    Case { name: "to the host", between: "barrier compute_shader/shader_write -> host/host_read" },
    Case {
        name: "to indirect arguments",
        between: "barrier compute_shader/shader_write -> draw_indirect/indirect_command_read",
    },
    Case {
        name: "SHADER_WRITE to SHADER_READ, twice in a row",
        between: "barrier compute_shader/shader_write -> compute_shader/shader_read\n\
                  barrier compute_shader/shader_write -> compute_shader/shader_read",
    },
    Case {
        name: "an event",
        between: "set-event e compute_shader\n\
                  wait-event e compute_shader/shader_write -> compute_shader/shader_read",
    },
];

impl Case {
    /// The stream.
    pub fn stream(&self) -> String {
        let dispatches: Vec<&str> = (0..DISPATCHES)
            .map(|i| if i % 2 == 0 { "dispatch step a b" } else { "dispatch step b a" })
            .collect();
        let separator = format!("\n{}\n", self.between);
        let body = dispatches.join(&separator);
        format!("buffer a 4096\nbuffer b 4096\nevent e\nbegin c\n{body}\nend\nsubmit c\nwait\n")
    }
}
