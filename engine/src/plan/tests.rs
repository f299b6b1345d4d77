//! A token's plan, looked at without a driver.

use std::collections::HashMap;

use zinc_shaders::Direction;

use super::*;
use crate::embedded;
use crate::gguf::Gguf;
use crate::model::Model;

fn with_plan<T>(options: Options, f: impl FnOnce(&Model<'_>, &Placement, &Plan) -> T) -> T {
    let gguf = Gguf::parse(embedded::MODEL).unwrap();
    let model = Model::from_gguf(&gguf).unwrap();
    let placement = place(&model, &options.limits).unwrap();
    let plan = decode(&model, &placement, &options).unwrap();
    f(&model, &placement, &plan)
}

fn options() -> Options {
    Options::new(256, Tuning::CPU, Limits::TYPICAL)
}

#[test]
fn a_token_is_22_dispatches_a_layer_four_around_them_and_one_copy() {
    with_plan(options(), |model, _, plan| {
        assert_eq!(plan.dispatches(), 22 * u64::from(model.config.layers) + 4);
        assert_eq!(plan.steps.len() as u64, plan.dispatches() + 1);
        assert!(matches!(plan.steps.last().unwrap().work, Work::Copy { .. }));
    });
}

#[test]
fn every_span_is_aligned_and_inside_its_buffer() {
    for tuning in [Tuning::CPU, Tuning::GPU] {
        with_plan(Options { tuning, ..options() }, |_, placement, plan| {
            for step in &plan.steps {
                for (span, _) in step.accesses() {
                    let size = match span.space {
                        Space::Weights(index) => placement.allocations[index as usize],
                        space => plan.bytes(space),
                    };
                    assert!(span.bytes > 0 && span.offset + span.bytes <= size, "{}: {span:?}", step.label());
                    assert_eq!(span.offset % 256, 0, "{}: {span:?}", step.label());
                }
            }
        });
    }
}

#[test]
fn every_intermediate_is_written_before_it_is_read() {
    with_plan(options(), |_, _, plan| {
        let mut written: Vec<Span> = Vec::new();
        for step in &plan.steps {
            for (span, direction) in step.accesses() {
                let by_host = matches!(span.space, Space::Weights(_) | Space::Constants | Space::Step);
                if direction == Direction::Read && !by_host {
                    assert!(written.contains(&span), "{} reads {span:?} before it is written", step.label());
                }
                if direction == Direction::Write {
                    assert!(!by_host, "{} writes what belongs to the host", step.label());
                    written.push(span);
                }
            }
        }
    });
}

#[test]
fn no_step_works_in_place_and_spans_are_equal_or_disjoint() {
    with_plan(options(), |_, _, plan| {
        let mut all: Vec<Span> = Vec::new();
        for step in &plan.steps {
            let accesses = step.accesses();
            for (i, (a, a_direction)) in accesses.iter().enumerate() {
                for (b, b_direction) in &accesses[..i] {
                    let both_read = *a_direction == Direction::Read && *b_direction == Direction::Read;
                    assert!(both_read || !a.overlaps(b), "{} reads what it writes", step.label());
                }
                all.push(*a);
            }
        }
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a == b || !a.overlaps(b)), "{a:?} overlaps another span in part");
        }
    });
}

fn step<'p>(plan: &'p Plan, label: &str) -> &'p Step {
    plan.steps.iter().find(|step| step.label() == label).unwrap_or_else(|| panic!("no step {label}"))
}

#[test]
fn independent_steps_do_not_conflict_and_dependent_ones_do() {
    with_plan(options(), |_, _, plan| {
        let conflict = |a: &str, b: &str| step(plan, a).conflicts(step(plan, b));
        let independent = [
            ("attn_q", "attn_k"),
            ("attn_k", "attn_v"),
            ("rope_q", "rope_k"),
            ("rope_k", "write_v"),
            ("write_k", "write_v"),
            ("rope_q", "write_k"),
            ("ffn_gate", "ffn_up"),
            ("ffn_up", "ffn_silu"),
        ];
        for (a, b) in independent {
            assert!(!conflict(&format!("blk.0.{a}"), &format!("blk.0.{b}")), "{a} and {b} conflict");
        }
        let dependent = [
            ("blk.0.attn_q", "blk.0.rope_q"),  // read after write
            ("blk.0.write_k", "blk.0.scores"), // read after write through the cache
            ("blk.0.scores", "blk.1.scores"),  // write after write: layers share intermediates
            ("blk.0.ffn_residual", "blk.1.attn_norm"),
            ("blk.0.attn_residual", "blk.0.ffn_residual"), // write after read of the residual stream
            ("output", "read_logits"),
        ];
        for (a, b) in dependent {
            assert!(conflict(a, b), "{a} and {b} do not conflict");
        }
        // Layers have caches of their own.
        assert!(!conflict("blk.0.write_k", "blk.1.scores"));
    });
}

#[test]
fn the_chain_of_dependent_steps_is_shorter_than_the_stream() {
    // The least number of barriers that keeps the order of all conflicting steps, without moving any: a barrier goes
    // before the first step that conflicts with one since the last barrier.
    with_plan(options(), |model, _, plan| {
        let (mut since, mut barriers) = (0, 0);
        for (i, step) in plan.steps.iter().enumerate() {
            if plan.steps[since..i].iter().any(|earlier| earlier.conflicts(step)) {
                barriers += 1;
                since = i;
            }
        }
        assert_eq!(barriers, 17 * model.config.layers + 4, "of {} steps", plan.steps.len());
    });
}

#[test]
fn weights_are_placed_without_overlap_and_split_at_the_allocation_limit() {
    let gguf = Gguf::parse(embedded::MODEL).unwrap();
    let model = Model::from_gguf(&gguf).unwrap();
    let small = Limits { allocation: 300_000, ..Limits::TYPICAL };
    let placement = place(&model, &small).unwrap();
    assert!(placement.allocations.len() > 5);
    assert!(placement.allocations.iter().all(|bytes| *bytes <= 300_000));
    let mut spans: HashMap<Space, Vec<Span>> = HashMap::new();
    for matrix in model.matrices() {
        let placed = placement.of(&matrix);
        for span in [Some(placed.quants), placed.scales].into_iter().flatten() {
            let others = spans.entry(span.space).or_default();
            assert!(others.iter().all(|other| !other.overlaps(&span)), "{} overlaps", matrix.name);
            others.push(span);
        }
    }
}

#[test]
fn a_matrix_beyond_a_range_is_split_by_rows_and_each_part_has_its_own_rows_of_the_result() {
    let small = Limits { range: 40_000, ..Limits::TYPICAL };
    with_plan(Options { context: 64, limits: small, ..options() }, |model, placement, plan| {
        let parts = placement.parts(&model.output);
        assert!(parts.len() > 1 && placement.whole(&model.output).is_none());
        assert_eq!(parts.iter().map(|part| part.rows).sum::<u32>(), model.output.rows);
        let mut expected = 0;
        for (part, step) in parts.iter().zip(plan.steps.iter().filter(|step| step.name == "output")) {
            assert_eq!(part.first_row, expected);
            expected += part.rows;
            assert!(part.placed.quants.bytes <= 40_000);
            let (result, _) = *step.accesses().last().unwrap();
            assert_eq!(result.bytes, 4 * u64::from(part.rows));
            assert_eq!(result.offset % 256, 0);
        }
        let lookups = plan.steps.iter().filter(|step| step.name == "token_embd").count();
        assert_eq!(lookups, placement.parts(&model.embedding).len());
    });
}

#[test]
fn a_cache_beyond_an_allocation_is_split_by_layers() {
    with_plan(options(), |_, _, plan| {
        assert_eq!(plan.buffers.iter().filter(|(space, _)| matches!(space, Space::Cache(_))).count(), 1);
    });
    let small = Limits { allocation: 300_000, ..Limits::TYPICAL };
    with_plan(Options { limits: small, ..options() }, |_, _, plan| {
        let caches: Vec<_> =
            plan.buffers.iter().filter(|(space, _)| matches!(space, Space::Cache(_))).collect();
        assert!(caches.len() > 1 && caches.iter().all(|(_, bytes)| *bytes <= 300_000), "{caches:?}");
    });
}

#[test]
fn limits_that_do_not_suffice_are_errors_that_name_the_tensor_or_step() {
    let gguf = Gguf::parse(embedded::MODEL).unwrap();
    let model = Model::from_gguf(&gguf).unwrap();
    let place_with = |limits: Limits| place(&model, &limits).unwrap_err().to_string();
    let error = place_with(Limits { range: 2_000, ..Limits::TYPICAL });
    assert!(error.contains("token_embd.weight") && error.contains("2000"), "{error}");
    let error = place_with(Limits { allocation: 2_000, ..Limits::TYPICAL });
    assert!(error.contains("token_embd.weight") && error.contains("allocates"), "{error}");

    let placement = place(&model, &Limits::TYPICAL).unwrap();
    let decode_with = |options: Options| decode(&model, &placement, &options).unwrap_err().to_string();
    let error = decode_with(Options { context: 4096, ..options() });
    assert!(error.contains("4096") && error.contains("1024"), "{error}");
    let error = decode_with(Options { context: 0, ..options() });
    assert!(error.contains("context of 0"), "{error}");
    let narrow = Limits { grid: [4, 4], ..Limits::TYPICAL };
    let error = decode_with(Options { limits: narrow, ..options() });
    assert!(error.contains("workgroups"), "{error}");
}

#[test]
fn more_rows_than_one_grid_dimension_holds_continue_along_the_other() {
    let grid = |ty, rows| {
        let bindings = zinc_shaders::matvec::Bindings { quants: (), scales: Some(()), x: (), result: () };
        kernels::matvec(ty, Shape { workgroup: 64, rows: 2 }, [32, rows], 65535, bindings).grid
    };
    let [x, y] = grid(crate::quant::WeightType::Q8_0, 151_936);
    assert_eq!([x, y], [65535, 2]);
    assert!(x * y * 2 >= 151_936);
    assert_eq!(grid(crate::quant::WeightType::Q4_0, 1), [1, 1]);
}

#[test]
fn a_layer_with_everything_fused_is_five_dispatches_with_a_barrier_between_each() {
    let fused = Options { fusion: Fusion::All, ..options() };
    with_plan(fused, |model, _, plan| {
        assert_eq!(plan.dispatches(), 5 * u64::from(model.config.layers) + 2);
        for pair in plan.steps.windows(2) {
            assert!(pair[0].conflicts(&pair[1]), "{} and {}", pair[0].label(), pair[1].label());
        }
        for step in &plan.steps {
            for (span, _) in step.accesses() {
                let in_buffer = matches!(span.space, Space::Weights(_))
                    || span.offset + span.bytes <= plan.bytes(span.space);
                assert!(in_buffer && span.offset % 256 == 0, "{}: {span:?}", step.label());
            }
        }
    });
}

#[test]
fn each_part_of_the_fusion_takes_dispatches_away_alone() {
    let count = |fusion| with_plan(Options { fusion, ..options() }, |_, _, plan| plan.dispatches());
    let none = count(Fusion::None);
    for part in [Fusion::Norm, Fusion::Rope, Fusion::Ffn] {
        assert!(count(part) < none && count(part) > count(Fusion::All), "{part:?}");
    }
}

#[test]
fn the_resident_kernel_is_refused_by_name_where_it_does_not_fit() {
    let features = Features { dot: true, memory_model: true, in_step: None };
    let resident = Options { fusion: Fusion::Persistent, features, ..options() };
    let gguf = Gguf::parse(embedded::MODEL).unwrap();
    let model = Model::from_gguf(&gguf).unwrap();
    let refusal = |options: &Options, limits: Limits| {
        let placement = place(&model, &limits).unwrap();
        decode(&model, &placement, &Options { limits, ..*options }).map(|_| ()).unwrap_err().to_string()
    };
    let apart = refusal(&resident, Limits { target: 1, ..Limits::TYPICAL });
    assert!(apart.contains("several allocations") && apart.contains("--fusion all"), "{apart}");
    let none = refusal(&Options { features: Features::default(), ..resident }, Limits::TYPICAL);
    assert!(none.contains("vulkanMemoryModel"), "{none}");
    let wide = Options { features: Features { in_step: Some(4), ..features }, ..resident };
    let wide = refusal(&wide, Limits::TYPICAL);
    assert!(wide.contains("8 invocations a workgroup on a CPU driver"), "{wide}");
    let gpu = Options { tuning: Tuning::GPU, ..resident };
    let small = refusal(&gpu, Limits { shared_memory: 24576, ..Limits::TYPICAL });
    assert!(small.contains("shared memory"), "{small}");
    let placement = place(&model, &Limits::TYPICAL).unwrap();
    let plan = decode(&model, &placement, &gpu).unwrap();
    assert_eq!(plan.dispatches(), 3);
    assert!(plan.failed.is_some() && plan.uploads.len() == 1);
}

/// What `alias-only` leaves of a plan with a full barrier after every dispatch, step by step.
fn left_by_alias_only(plan: &Plan) -> usize {
    let mut planner = zinc_hazard::Planner::new(zinc_hazard::Policy::AliasOnly);
    for step in &plan.steps {
        let dispatches = matches!(step.work, Work::Dispatch(_));
        planner.operation(&barriers::accesses(step), dispatches);
        if dispatches {
            planner.asked(barriers::ANY);
        }
    }
    planner.asked(barriers::ANY);
    planner.flush();
    planner.counts().emitted as usize
}

#[test]
fn tracked_barriers_are_as_many_as_alias_only_leaves_and_each_pair_has_one_between() {
    let features = Features { dot: true, memory_model: true, in_step: None };
    for fusion in [Fusion::None, Fusion::Norm, Fusion::Rope, Fusion::Ffn, Fusion::All, Fusion::Persistent] {
        with_plan(Options { fusion, features, tuning: Tuning::GPU, ..options() }, |_, _, plan| {
            let due = barriers::Due::of(plan, |_| true);
            assert!(due.at_the_end && due.before[0].is_none(), "{fusion:?}");
            let naive = plan.dispatches() as usize + 1;
            match fusion {
                Fusion::All | Fusion::Persistent => assert!(due.count() <= naive, "{fusion:?}"),
                _ => assert!(due.count() < naive, "{fusion:?}: {naive} asked, nothing saved"),
            }
            is_ordered(plan, &format!("{fusion:?}"));
        });
    }
}

/// What is wrong with a plan whose steps wait for values: two steps with no barrier between them may meet only where the later one
/// reads what the earlier one hands over, in words that were emptied before a barrier and are written once.
fn trouble_in_chain(plan: &Plan) -> Option<String> {
    let due = barriers::Due::of(plan, |_| true);
    let begin = step(plan, "begin_chain").accesses()[0].0;
    let gave_up = plan.failed.map(|_| Space::Control);
    let inside = |span: &Span| {
        span.space == begin.space
            && span.offset >= begin.offset
            && span.offset + span.bytes <= begin.offset + begin.bytes
    };
    for (later, step) in plan.steps.iter().enumerate() {
        for (earlier, other) in plan.steps[..later].iter().enumerate() {
            let apart = due.before[earlier + 1..=later].iter().any(Option::is_some);
            for (a, wrote) in other.accesses() {
                for (b, does) in step.accesses() {
                    let meet = a.overlaps(&b) && (wrote.writes() || does.writes());
                    let handed_over = wrote == Direction::Write && does == Direction::Read && inside(&b);
                    // Every step may say there that it gave up: an atomic store of the same word.
                    let says = Some(a.space) == gave_up && a.offset == 0 && b.offset == 0;
                    if meet && !apart && !handed_over && !says {
                        return Some(format!("{} and {} at {b:?}", other.label(), step.label()));
                    }
                    let twice = wrote == Direction::Write && does == Direction::Write && inside(&b);
                    if a.overlaps(&b) && twice && other.name != "begin_chain" {
                        return Some(format!("{} and {} both write {b:?}", other.label(), step.label()));
                    }
                }
            }
        }
    }
    None
}

#[test]
fn a_chain_takes_no_barrier_between_its_steps_and_hands_over_what_is_written_once() {
    let barriers = Options { fusion: Fusion::All, tuning: Tuning::GPU, ..options() };
    let values = Options { handoff: Handoff::Values, ..barriers };
    let attention = Some(Fragment { m: 16, n: 8, k: 16, subgroup: 32 });
    for options in [values, Options { sample: true, ..values }, Options { attention, ..values }] {
        with_plan(options, |model, _, plan| {
            let angles = u64::from(options.attention.is_some());
            let sample = u64::from(options.sample);
            assert_eq!(plan.dispatches(), 5 * u64::from(model.config.layers) + 3 + angles + 2 * sample);
            // Before the first layer, before what follows the output, between the two steps of a choice, and at the end.
            assert_eq!(barriers::Due::of(plan, |_| true).count() as u64, 3 + sample);
            assert_eq!(trouble_in_chain(plan), None);
        });
    }
    // The same check fails on steps that take no barrier and do not wait for values.
    with_plan(values, |_, _, plan| {
        let mut broken = plan.clone();
        for step in &mut broken.steps {
            if let Work::Dispatch(dispatch) = &mut step.work {
                dispatch.waits = dispatch.waits || step.name == "attn_qkv";
            }
        }
        assert!(trouble_in_chain(&broken).unwrap().contains("attn_qkv"));
        let mut twice = plan.clone();
        let result = step(plan, "blk.0.attn_output").accesses()[6].0;
        for step in &mut twice.steps {
            if let (Some(1), "attn_output", Work::Dispatch(dispatch)) =
                (step.layer, step.name, &mut step.work)
            {
                dispatch.call.bindings[6] = result;
            }
        }
        assert!(trouble_in_chain(&twice).unwrap().contains("attn_output"));
    });
}

#[test]
fn a_step_that_is_left_out_needs_no_barrier() {
    with_plan(options(), |_, _, plan| {
        let all = barriers::Due::of(plan, |_| true);
        let without = barriers::Due::of(plan, |step| step.name != "read_logits");
        assert_eq!(without.count() + 1, all.count());
        assert!(without.before.last().unwrap().is_none() && all.before.last().unwrap().is_some());
    });
}

/// Each step that conflicts with an earlier one has a barrier since, and there are as many as `alias-only` leaves.
fn is_ordered(plan: &Plan, what: &str) {
    let due = barriers::Due::of(plan, |_| true);
    assert_eq!(due.count(), left_by_alias_only(plan), "{what}");
    for (later, step) in plan.steps.iter().enumerate() {
        for earlier in 0..later {
            let apart = due.before[earlier + 1..=later].iter().any(Option::is_some);
            let (a, b) = (plan.steps[earlier].label(), step.label());
            assert!(apart || !plan.steps[earlier].conflicts(step), "{what}: nothing between {a} and {b}");
        }
    }
}

#[test]
fn a_batch_reads_nothing_before_it_is_written_and_each_conflict_has_a_barrier_between() {
    let gguf = Gguf::parse(embedded::MODEL).unwrap();
    let model = Model::from_gguf(&gguf).unwrap();
    let placement = place(&model, &Limits::TYPICAL).unwrap();
    let fragment = Some(Fragment { m: 16, n: 16, k: 16, subgroup: 32 });
    for (fusion, logits, matrix) in [
        (Fusion::None, Logits::Last, None),
        (Fusion::None, Logits::All, None),
        (Fusion::All, Logits::Last, None),
        (Fusion::None, Logits::All, fragment),
        (Fusion::All, Logits::Last, fragment),
    ] {
        let options = Options { fusion, matrix, ..options() };
        let plan = prompt(&model, &placement, &options, 32, logits).unwrap();
        // What it shares with the plan of a token is of the same size.
        let token = decode(&model, &placement, &options).unwrap();
        for space in [Space::Constants, Space::Cache(0)] {
            assert!(plan.bytes(space) > 0 && plan.bytes(space) <= token.bytes(space), "{space:?}");
        }
        let rows = if logits == Logits::All { 32 } else { 1 };
        assert_eq!(plan.bytes(Space::Readback), rows * 4 * u64::from(model.config.vocabulary));
        let mut written: Vec<Span> = Vec::new();
        for step in &plan.steps {
            for (span, direction) in step.accesses() {
                let by_host = matches!(span.space, Space::Weights(_) | Space::Constants | Space::Step);
                let known = direction != Direction::Read || by_host || written.contains(&span);
                assert!(known, "{} reads {span:?} before it is written", step.label());
                if direction != Direction::Read {
                    assert!(!by_host, "{} writes what belongs to the host", step.label());
                    written.push(span);
                }
            }
        }
        is_ordered(&plan, &format!("{fusion:?} {logits:?} {matrix:?}"));
    }
}

#[test]
fn a_batch_beyond_the_limits_is_an_error_that_says_how_much_it_takes() {
    let gguf = Gguf::parse(embedded::MODEL).unwrap();
    let model = Model::from_gguf(&gguf).unwrap();
    let small = Limits { range: 40_000, ..Limits::TYPICAL };
    let placement = place(&model, &small).unwrap();
    let options = Options { context: 64, limits: small, ..options() };
    let error = prompt(&model, &placement, &options, 512, Logits::Last).unwrap_err();
    assert!(error.to_string().contains("40000"), "{error}");
    assert!(prompt(&model, &placement, &options, 4, Logits::Last).is_ok());
}

#[test]
fn attention_on_cooperative_matrices_takes_one_dispatch_more_and_no_barrier() {
    let plain = Options { fusion: Fusion::All, ..options() };
    let attention = Some(Fragment { m: 16, n: 8, k: 16, subgroup: 32 });
    let counts = |options: Options| {
        with_plan(options, |_, _, plan| {
            is_ordered(plan, "attention on cooperative matrices");
            let due = barriers::Due::of(plan, |_| true);
            (plan.dispatches(), due.count())
        })
    };
    let (dispatches, barriers) = counts(plain);
    assert_eq!(counts(Options { attention, ..plain }), (dispatches + 1, barriers));
}
