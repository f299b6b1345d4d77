//! What bits and numbers are called, as data.
//!
//! Sources: opcodes, Mesa's src/amd/common/sid.h and Linux's nvd.h, soc15d.h; events, the VGT_EVENT_TYPE field of
//! AMD's published register references; cache fields, the same headers (see [`crate::pm4`]). The fields of
//! RELEASE_MEM before GFX10 are those of EVENT_WRITE_EOP. What Apple's barrier bits do is not known but for one:
//! genxml's cmdbuf.xml numbers the others.

/// A field of a word: its lowest bit, its width in bits, its name.
pub type Field = (u32, u32, &'static str);

/// GCR_CNTL as ACQUIRE_MEM carries it, GFX10 and later.
pub const GCR_CNTL: &[Field] = &[
    (0, 2, "GLI_INV"),
    (2, 2, "GL1_RANGE"),
    (4, 1, "GLM_WB"),
    (5, 1, "GLM_INV"),
    (6, 1, "GLK_WB"),
    (7, 1, "GLK_INV"),
    (8, 1, "GLV_INV"),
    (9, 1, "GL1_INV"),
    (10, 1, "GL2_US"),
    (11, 2, "GL2_RANGE"),
    (13, 1, "GL2_DISCARD"),
    (14, 1, "GL2_INV"),
    (15, 1, "GL2_WB"),
    (16, 2, "SEQ"),
    (18, 1, "RANGE_IS_PA"),
];

/// The cache fields in RELEASE_MEM's event word, GFX10 and later.
pub const RELEASE_GCR: &[Field] = &[
    (12, 1, "GLM_WB"),
    (13, 1, "GLM_INV"),
    (14, 1, "GLV_INV"),
    (15, 1, "GL1_INV"),
    (16, 1, "GL2_US"),
    (17, 2, "GL2_RANGE"),
    (19, 1, "GL2_DISCARD"),
    (20, 1, "GL2_INV"),
    (21, 1, "GL2_WB"),
    (22, 2, "SEQ"),
    (24, 1, "GLK_WB"),
    // TEMPORAL on GFX12.
    (25, 2, "CACHE_POLICY"),
    (28, 1, "EXECUTE"),
    (30, 1, "GLK_INV"),
    (31, 1, "PWS_ENABLE"),
];

/// The cache fields in the event word of EVENT_WRITE_EOP and of RELEASE_MEM before GFX10.
pub const RELEASE_EOP: &[Field] = &[
    (12, 1, "TCL1_VOL_ACTION_ENA"),
    (13, 1, "TC_VOL_ACTION_ENA"),
    (15, 1, "TC_WB_ACTION_ENA"),
    (16, 1, "TCL1_ACTION_ENA"),
    (17, 1, "TC_ACTION_ENA"),
    (19, 1, "TC_NC_ACTION_ENA"),
    (20, 1, "TC_WC_ACTION_ENA"),
    (21, 1, "TC_MD_ACTION_ENA"),
    (25, 2, "CACHE_POLICY"),
    (28, 1, "EXECUTE"),
];

/// CP_COHER_CNTL, GFX6 to GFX9; the fields of all four, where they do not contradict each other. Bit 31 has no name: it
/// is SH_SD_ACTION_ENA in the register and selects the engine in ACQUIRE_MEM.
pub const CP_COHER_CNTL: &[Field] = &[
    (0, 1, "DEST_BASE_0_ENA"),
    (1, 1, "DEST_BASE_1_ENA"),
    (2, 1, "TC_SD_ACTION_ENA"),
    (3, 1, "TC_NC_ACTION_ENA"),
    (4, 1, "TC_WC_ACTION_ENA"),
    (5, 1, "TC_INV_METADATA_ACTION_ENA"),
    (6, 1, "CB0_DEST_BASE_ENA"),
    (7, 1, "CB1_DEST_BASE_ENA"),
    (8, 1, "CB2_DEST_BASE_ENA"),
    (9, 1, "CB3_DEST_BASE_ENA"),
    (10, 1, "CB4_DEST_BASE_ENA"),
    (11, 1, "CB5_DEST_BASE_ENA"),
    (12, 1, "CB6_DEST_BASE_ENA"),
    (13, 1, "CB7_DEST_BASE_ENA"),
    (14, 1, "DB_DEST_BASE_ENA"),
    (15, 1, "TCL1_VOL_ACTION_ENA"),
    (16, 1, "TC_VOL_ACTION_ENA"),
    (18, 1, "TC_WB_ACTION_ENA"),
    (19, 1, "DEST_BASE_2_ENA"),
    (21, 1, "DEST_BASE_3_ENA"),
    (22, 1, "TCL1_ACTION_ENA"),
    (23, 1, "TC_ACTION_ENA"),
    (25, 1, "CB_ACTION_ENA"),
    (26, 1, "DB_ACTION_ENA"),
    (27, 1, "SH_KCACHE_ACTION_ENA"),
    (28, 1, "SH_KCACHE_VOL_ACTION_ENA"),
    (29, 1, "SH_ICACHE_ACTION_ENA"),
    (30, 1, "SH_KCACHE_WB_ACTION_ENA"),
];

/// The mask of a CDM barrier.
pub const CDM_BARRIER: &[Field] = &[(3, 1, "USC_CACHE_INVAL"), (27, 1, "RETURNS")];

/// The names of the fields of `word` that are not zero, from the lowest bit on: `NAME`, or `NAME=VALUE` for a field
/// of several bits whose value is not 1; a bit in no field is `BIT_N`.
pub fn fields(word: u32, table: &[Field]) -> Vec<String> {
    let mut out = Vec::new();
    let mut bit = 0;
    while bit < 32 {
        let field = table.iter().find(|(low, _, _)| *low == bit);
        let (width, name) = field.map_or((1, None), |(_, width, name)| (*width, Some(*name)));
        let value = word >> bit & ((1 << width) - 1);
        match (value, name) {
            (0, _) => {}
            (1, Some(name)) => out.push(name.to_owned()),
            (value, Some(name)) => out.push(format!("{name}={value}")),
            (_, None) => out.push(format!("BIT_{bit}")),
        }
        bit += width;
    }
    out
}

/// The name of a type-3 opcode.
pub fn opcode(code: u8) -> Option<&'static str> {
    find(OPCODES, code)
}

/// The name of an event of EVENT_WRITE, EVENT_WRITE_EOP or RELEASE_MEM.
pub fn event(code: u8) -> Option<&'static str> {
    find(EVENTS, code)
}

fn find(table: &[(u8, &'static str)], code: u8) -> Option<&'static str> {
    table.binary_search_by_key(&code, |(key, _)| *key).ok().map(|i| table[i].1)
}

const OPCODES: &[(u8, &str)] = &[
    (0x10, "NOP"),
    (0x11, "SET_BASE"),
    (0x12, "CLEAR_STATE"),
    (0x13, "INDEX_BUFFER_SIZE"),
    (0x15, "DISPATCH_DIRECT"),
    (0x16, "DISPATCH_INDIRECT"),
    (0x1d, "ATOMIC_GDS"),
    (0x1e, "ATOMIC_MEM"),
    (0x1f, "OCCLUSION_QUERY"),
    (0x20, "SET_PREDICATION"),
    (0x21, "REG_RMW"),
    (0x22, "COND_EXEC"),
    (0x23, "PRED_EXEC"),
    (0x24, "DRAW_INDIRECT"),
    (0x25, "DRAW_INDEX_INDIRECT"),
    (0x26, "INDEX_BASE"),
    (0x27, "DRAW_INDEX_2"),
    (0x28, "CONTEXT_CONTROL"),
    (0x2a, "INDEX_TYPE"),
    (0x2c, "DRAW_INDIRECT_MULTI"),
    (0x2d, "DRAW_INDEX_AUTO"),
    (0x2e, "DRAW_INDEX_IMMD"),
    (0x2f, "NUM_INSTANCES"),
    (0x30, "DRAW_INDEX_MULTI_AUTO"),
    (0x32, "INDIRECT_BUFFER_SI"),
    (0x33, "INDIRECT_BUFFER_CONST"),
    (0x34, "STRMOUT_BUFFER_UPDATE"),
    (0x35, "DRAW_INDEX_OFFSET_2"),
    (0x37, "WRITE_DATA"),
    (0x38, "DRAW_INDEX_INDIRECT_MULTI"),
    (0x39, "MEM_SEMAPHORE"),
    (0x3a, "MPEG_INDEX"),
    (0x3c, "WAIT_REG_MEM"),
    (0x3d, "MEM_WRITE"),
    (0x3f, "INDIRECT_BUFFER"),
    (0x40, "COPY_DATA"),
    (0x41, "CP_DMA"),
    (0x42, "PFP_SYNC_ME"),
    (0x43, "SURFACE_SYNC"),
    (0x44, "ME_INITIALIZE"),
    (0x45, "COND_WRITE"),
    (0x46, "EVENT_WRITE"),
    (0x47, "EVENT_WRITE_EOP"),
    (0x48, "EVENT_WRITE_EOS"),
    (0x49, "RELEASE_MEM"),
    (0x4a, "PREAMBLE_CNTL"),
    (0x4c, "DISPATCH_MESH_INDIRECT_MULTI"),
    (0x4d, "DISPATCH_TASKMESH_GFX"),
    (0x4e, "DISPATCH_MESH_DIRECT"),
    (0x50, "DMA_DATA"),
    (0x51, "CONTEXT_REG_RMW"),
    (0x57, "ONE_REG_WRITE"),
    (0x58, "ACQUIRE_MEM"),
    (0x59, "REWIND"),
    (0x5d, "PRIME_UTCL2"),
    (0x5e, "LOAD_UCONFIG_REG"),
    (0x5f, "LOAD_SH_REG"),
    (0x60, "LOAD_CONFIG_REG"),
    (0x61, "LOAD_CONTEXT_REG"),
    (0x63, "LOAD_SH_REG_INDEX"),
    (0x68, "SET_CONFIG_REG"),
    (0x69, "SET_CONTEXT_REG"),
    (0x6a, "SET_CONTEXT_REG_INDEX"),
    (0x76, "SET_SH_REG"),
    (0x77, "SET_SH_REG_OFFSET"),
    (0x78, "SET_QUEUE_REG"),
    (0x79, "SET_UCONFIG_REG"),
    (0x7a, "SET_UCONFIG_REG_INDEX"),
    (0x80, "LOAD_CONST_RAM"),
    (0x81, "WRITE_CONST_RAM"),
    (0x83, "DUMP_CONST_RAM"),
    (0x84, "INCREMENT_CE_COUNTER"),
    (0x85, "INCREMENT_DE_COUNTER"),
    (0x86, "WAIT_ON_CE_COUNTER"),
    (0x90, "FRAME_CONTROL"),
    (0x95, "HDP_FLUSH"),
    (0x9b, "SET_SH_REG_INDEX"),
    (0x9f, "LOAD_CONTEXT_REG_INDEX"),
    (0xa7, "DISPATCH_DIRECT_INTERLEAVED"),
    (0xa8, "DISPATCH_INDIRECT_INTERLEAVED"),
    (0xa9, "DISPATCH_TASK_STATE_INIT"),
    (0xaa, "DISPATCH_TASKMESH_DIRECT_ACE"),
    (0xad, "DISPATCH_TASKMESH_INDIRECT_MULTI_ACE"),
    (0xb1, "EVENT_WRITE_ZPASS"),
    (0xb8, "SET_CONTEXT_REG_PAIRS"),
    (0xb9, "SET_CONTEXT_REG_PAIRS_PACKED"),
    (0xba, "SET_SH_REG_PAIRS"),
    (0xbb, "SET_SH_REG_PAIRS_PACKED"),
    (0xbd, "SET_SH_REG_PAIRS_PACKED_N"),
    (0xbe, "SET_UCONFIG_REG_PAIRS"),
    (0xd0, "PROTECTED_FENCE_SIGNAL"),
    (0xd1, "FENCE_WAIT_MULTI"),
    (0xef, "UPDATE_DB_SUMMARIZER_TIMEOUT"),
];

const EVENTS: &[(u8, &str)] = &[
    (0x01, "SAMPLE_STREAMOUTSTATS1"),
    (0x02, "SAMPLE_STREAMOUTSTATS2"),
    (0x03, "SAMPLE_STREAMOUTSTATS3"),
    (0x04, "CACHE_FLUSH_TS"),
    (0x05, "CONTEXT_DONE"),
    (0x06, "CACHE_FLUSH"),
    (0x07, "CS_PARTIAL_FLUSH"),
    (0x08, "VGT_STREAMOUT_SYNC"),
    (0x0a, "VGT_STREAMOUT_RESET"),
    (0x0b, "END_OF_PIPE_INCR_DE"),
    (0x0c, "END_OF_PIPE_IB_END"),
    (0x0d, "RST_PIX_CNT"),
    (0x0e, "BREAK_BATCH"),
    (0x0f, "VS_PARTIAL_FLUSH"),
    (0x10, "PS_PARTIAL_FLUSH"),
    (0x11, "FLUSH_HS_OUTPUT"),
    (0x12, "FLUSH_DFSM"),
    (0x13, "RESET_TO_LOWEST_VGT"),
    (0x14, "CACHE_FLUSH_AND_INV_TS_EVENT"),
    (0x15, "ZPASS_DONE"),
    (0x16, "CACHE_FLUSH_AND_INV_EVENT"),
    (0x17, "PERFCOUNTER_START"),
    (0x18, "PERFCOUNTER_STOP"),
    (0x19, "PIPELINESTAT_START"),
    (0x1a, "PIPELINESTAT_STOP"),
    (0x1b, "PERFCOUNTER_SAMPLE"),
    (0x1e, "SAMPLE_PIPELINESTAT"),
    (0x20, "SAMPLE_STREAMOUTSTATS"),
    (0x21, "RESET_VTX_CNT"),
    (0x24, "VGT_FLUSH"),
    (0x28, "BOTTOM_OF_PIPE_TS"),
    (0x2a, "DB_CACHE_FLUSH_AND_INV"),
    (0x2b, "FLUSH_AND_INV_DB_DATA_TS"),
    (0x2c, "FLUSH_AND_INV_DB_META"),
    (0x2d, "FLUSH_AND_INV_CB_DATA_TS"),
    (0x2e, "FLUSH_AND_INV_CB_META"),
    (0x2f, "CS_DONE"),
    (0x30, "PS_DONE"),
    (0x31, "FLUSH_AND_INV_CB_PIXEL_DATA"),
    (0x33, "THREAD_TRACE_START"),
    (0x34, "THREAD_TRACE_STOP"),
    (0x35, "THREAD_TRACE_MARKER"),
    (0x37, "THREAD_TRACE_FINISH"),
    (0x38, "PIXEL_PIPE_STAT_CONTROL"),
    (0x39, "PIXEL_PIPE_STAT_DUMP"),
    (0x3a, "PIXEL_PIPE_STAT_RESET"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_barrier_that_radv_emits_between_two_dispatches_reads_as_it_was_published() {
        assert_eq!(fields(0xc180, GCR_CNTL), ["GLK_INV", "GLV_INV", "GL2_INV", "GL2_WB"]);
    }

    #[test]
    fn a_wide_field_shows_its_value_and_a_bit_without_name_its_number() {
        assert_eq!(fields(1 << 16, GCR_CNTL), ["SEQ"]);
        assert_eq!(fields(2 << 16 | 1 << 20 | 3, GCR_CNTL), ["GLI_INV=3", "SEQ=2", "BIT_20"]);
        assert_eq!(fields(0x8, CDM_BARRIER), ["USC_CACHE_INVAL"]);
    }

    #[test]
    fn tables_are_sorted_and_fields_do_not_overlap() {
        assert!(OPCODES.is_sorted_by_key(|(code, _)| *code) && EVENTS.is_sorted_by_key(|(code, _)| *code));
        assert_eq!((opcode(0x58), event(7)), (Some("ACQUIRE_MEM"), Some("CS_PARTIAL_FLUSH")));
        for table in [GCR_CNTL, RELEASE_GCR, RELEASE_EOP, CP_COHER_CNTL, CDM_BARRIER] {
            assert!(table.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        }
    }
}
