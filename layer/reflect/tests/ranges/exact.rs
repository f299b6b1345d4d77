//! How tight the extents are: small shaders, each with the extent that it must have to the byte.
//!
//! Without these "everything" would pass the tests of soundness.

use zinc_reflect::{AddressSource, Cache, Direction, Dispatch, Extent, Footprint, Specialization};

use crate::instrument::Through;
use crate::{footprint, tools};

/// The written extent of binding 0 of a shader with this body.
fn written(body: &str, push: &[u32], groups: [u32; 3]) -> Extent {
    written_with(body, push, groups, &Specialization::none())
}

fn written_with(body: &str, push: &[u32], groups: [u32; 3], specialization: &Specialization) -> Extent {
    let push = words(push);
    let dispatch = Dispatch { push_constants: &push, groups, base: [0; 3] };
    compiled(body, specialization)
        .evaluate(&dispatch)
        .binding(0, 0)
        .expect("the shader has the binding")
        .write
}

fn words(push: &[u32]) -> Vec<u8> {
    push.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn compiled(body: &str, specialization: &Specialization) -> Footprint {
    footprint(&words_of(body), specialization)
}

/// The SPIR-V of a shader with this body.
fn words_of(body: &str) -> Vec<u32> {
    let text = format!(
        "#version 450
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 64) in;
layout(constant_id = 0) const uint S = 4;
layout(std430, binding = 0) buffer O {{ uint o[]; }};
layout(std430, binding = 1) buffer I {{ uint i[]; }};
layout(push_constant) uniform P {{ uint a; uint b; uint c; uint d; uint e; uint f; }} p;
uint fastdiv(uint n, uint mp, uint l) {{ uint high, low; umulExtended(n, mp, high, low); return (high + n) >> l; }}
void main() {{ const uint x = gl_GlobalInvocationID.x; {body} }}"
    );
    let file = tempfile::Builder::new().suffix(".comp").tempfile().expect("a temporary file");
    std::fs::write(file.path(), text).expect("the temporary file can be written");
    tools::compile(file.path(), "vulkan1.1")
}

fn bytes(start: u64, end: u64) -> Extent {
    Extent::Bytes { start, end, because: None }
}

#[test]
fn an_index_is_as_large_as_the_dispatch_makes_it() {
    assert_eq!(written("o[x] = 1;", &[], [3, 1, 1]), bytes(0, 3 * 64 * 4));
}

#[test]
fn a_dispatch_is_evaluated_once_and_another_for_itself() {
    let cache: Cache<Extent> = Cache::new(compiled("o[x + p.a] = p.c;", &Specialization::none()));
    let get = |push: &[u32], groups: [u32; 3], base: [u32; 3]| {
        let push = words(push);
        let dispatch = Dispatch { push_constants: &push, groups, base };
        let found = cache.get(&dispatch, |extents| extents.binding(0, 0).expect("it is there").write);
        assert_eq!(found, cache.footprint().evaluate(&dispatch).binding(0, 0).map(|b| b.write).as_ref());
        (found.copied(), cache.evaluated())
    };
    let (one, plain) = ([1, 1, 1], [0; 3]);
    assert_eq!(get(&[0, 0, 5, 0], one, plain), (Some(bytes(0, 256)), 1));
    assert_eq!(get(&[0, 9, 7, 9], one, plain).1, 1, "push constants that decide nothing");
    assert_eq!(get(&[4, 0, 5, 0], one, plain), (Some(bytes(16, 272)), 2));
    assert_eq!(get(&[0, 0, 5, 0], [2, 1, 1], plain).1, 3, "other workgroups");
    assert_eq!(get(&[0, 0, 5, 0], one, [1, 0, 0]).1, 4, "another first one");
    assert_eq!(get(&[], one, plain).1, 5, "push constants that are missing");
    for again in [&[0, 0, 5, 0][..], &[4, 0, 5, 0], &[]] {
        assert_eq!(get(again, one, plain).1, 5);
    }
}

#[test]
fn what_is_remembered_has_an_end() {
    let cache: Cache<()> = Cache::new(compiled("o[x + p.a] = 1;", &Specialization::none()));
    let get = |n: u32| {
        let push = n.to_le_bytes();
        cache.get(&Dispatch { push_constants: &push, groups: [1; 3], base: [0; 3] }, |_| ()).is_some()
    };
    let known = (0..5000).filter(|n| get(*n)).count();
    assert_eq!((known, cache.evaluated()), (4096, 4096));
    assert!(get(7) && !get(6000), "what is known stays known, and what is new is not looked at");
}

#[test]
fn a_push_constant_moves_the_extent() {
    assert_eq!(written("o[x + p.a] = 1;", &[1000], [1, 1, 1]), bytes(4000, 4256));
}

#[test]
fn a_guard_bounds_what_is_behind_it() {
    assert_eq!(written("if (x >= p.a) return; o[x] = 1;", &[100], [8, 1, 1]), bytes(0, 400));
    assert_eq!(written("if (x < p.a && x >= p.b) o[x] = 1;", &[100, 50], [8, 1, 1]), bytes(200, 400));
    assert_eq!(written("if (x >= p.a || x < p.b) return; o[x] = 1;", &[100, 50], [8, 1, 1]), bytes(200, 400));
}

#[test]
fn a_guard_that_never_holds_leaves_nothing() {
    assert_eq!(written("if (p.a == 7) o[x] = 1;", &[6], [8, 1, 1]), Extent::Nothing);
}

#[test]
fn a_loop_reaches_as_far_as_its_bounds() {
    assert_eq!(written("for (uint j = x; j < p.a; j += 64) o[j] = 1;", &[1000], [1, 1, 1]), bytes(0, 4000));
    assert_eq!(written("for (int j = int(p.a) - 1; j >= 2; --j) o[j] = 1;", &[9], [1, 1, 1]), bytes(8, 36));
    let nested = "for (uint r = 0; r < p.a; ++r) for (uint c = 0; c < p.b; ++c) o[r * p.c + c] = 1;";
    assert_eq!(written(nested, &[5, 7, 100], [1, 1, 1]), bytes(0, (4 * 100 + 7) * 4));
}

#[test]
fn a_quotient_and_its_rest_find_each_other_again() {
    let body = "uint row = x / p.a, column = x - row * p.a; if (x < p.b) o[row * 1000 + column] = 1;";
    assert_eq!(written(body, &[10, 35], [1, 1, 1]), bytes(0, (3 * 1000 + 5) * 4));
}

#[test]
fn a_division_by_a_product_is_a_division() {
    // 12: shift 4, magic (2^32 · (16 − 12)) / 12 + 1.
    let magic = ((1u64 << 32) * 4 / 12 + 1) as u32;
    let body = "uint q = fastdiv(x, p.a, p.b); if (x < 24) o[(x - q * 12) + 100 * q] = 1;";
    assert_eq!(written(body, &[magic, 4], [1, 1, 1]), bytes(0, 112 * 4));
}

#[test]
fn a_value_from_memory_is_any_value_unless_it_is_bounded() {
    assert!(matches!(written("o[i[x]] = 1;", &[], [1, 1, 1]), Extent::Whole { .. }));
    assert_eq!(written("o[i[x] & 31] = 1;", &[], [1, 1, 1]), bytes(0, 128));
    let Extent::Bytes { start: 0, end: 160, .. } = written("o[min(i[x], 39)] = 1;", &[], [1, 1, 1]) else {
        panic!("a minimum bounds it")
    };
}

#[test]
fn small_integers_have_small_ranges() {
    let body = "uint8_t n = uint8_t(i[x]); o[uint(n)] = 1;";
    let extent = written(body, &[], [1, 1, 1]);
    assert!(matches!(extent, Extent::Bytes { start: 0, end: 1024, .. }), "{extent:?}");
    assert_eq!(
        written("uint64_t n = uint64_t(p.a) * 16; if (x < 1) o[uint(n)] = 1;", &[5], [1, 1, 1]),
        bytes(320, 324)
    );
}

#[test]
fn a_specialization_constant_decides_branches_and_strides() {
    let body = "if (S == 2) o[x * S] = 1;";
    assert_eq!(written(body, &[], [1, 1, 1]), Extent::Nothing);
    let two: Specialization = [(0, 2)].into_iter().collect();
    assert_eq!(written_with(body, &[], [1, 1, 1], &two), bytes(0, (63 * 2 + 1) * 4));
}

#[test]
fn arithmetic_that_wraps_on_its_way_comes_back() {
    assert_eq!(written("o[(x - p.a) + p.a + p.b] = 1;", &[500, 10], [1, 1, 1]), bytes(40, 40 + 256));
    assert!(matches!(written("o[x - p.a] = 1;", &[1], [1, 1, 1]), Extent::Whole { .. }));
}

#[test]
fn no_workgroup_touches_nothing() {
    assert_eq!(written("o[x] = 1;", &[], [0, 1, 1]), Extent::Nothing);
}

#[test]
fn push_constants_that_are_missing_are_any_value() {
    assert!(matches!(written("o[p.f] = 1;", &[1, 2], [1, 1, 1]), Extent::Whole { .. }));
}

/// The footprint of a shader that gets a pointer and a number in push constants, and another pointer from memory.
fn with_addresses(body: &str) -> Footprint {
    let text = format!(
        "#version 450
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430) buffer R {{ uint v[]; }};
layout(std430, binding = 0) buffer O {{ R held; }};
layout(push_constant) uniform P {{ uint n; R r; uint64_t raw; }} p;
void main() {{ const uint x = gl_GlobalInvocationID.x; {body} }}"
    );
    let file = tempfile::Builder::new().suffix(".comp").tempfile().expect("a temporary file");
    std::fs::write(file.path(), text).expect("the temporary file can be written");
    footprint(&tools::compile(file.path(), "vulkan1.2"), &Specialization::none())
}

#[test]
fn an_address_that_comes_from_a_push_constant_says_which() {
    let chained = with_addresses("R q = p.r; q.v[x] = p.r.v[0];");
    assert_eq!(
        chained.address_sources(),
        [AddressSource { push_constant: Some(8), direction: Direction::BOTH }]
    );
    let altered = with_addresses("R q = R(p.raw + 64ul); q.v[x] = 1;");
    assert_eq!(
        altered.address_sources(),
        [AddressSource { push_constant: None, direction: Direction::WRITE }]
    );
    let loaded = with_addresses("uint t = held.v[x]; if (t == 7) p.r.v[0] = t;");
    let unknown = AddressSource { push_constant: None, direction: Direction::READ };
    let known = AddressSource { push_constant: Some(8), direction: Direction::WRITE };
    assert_eq!(loaded.address_sources(), [unknown, known]);
}

#[test]
fn addresses_are_as_exact_as_offsets() {
    let footprint = with_addresses("if (x < p.n) { p.r.v[x] = 1; R q = R(p.raw + 64ul); q.v[3] = 1; }");
    let mut push = [0; 24];
    push[0] = 10;
    push[8..16].copy_from_slice(&0x1_0000_0000u64.to_le_bytes());
    push[16..24].copy_from_slice(&0x2_0000_0000u64.to_le_bytes());
    let dispatch = Dispatch { push_constants: &push, groups: [1, 1, 1], base: [0; 3] };
    let mut written: Vec<Extent> = footprint.evaluate(&dispatch).addresses.iter().map(|a| a.write).collect();
    written.sort_by_key(|extent| format!("{extent:?}"));
    let raw = 0x2_0000_0000 + 64 + 12;
    assert_eq!(written, [bytes(0x1_0000_0000, 0x1_0000_0000 + 40), bytes(raw, raw + 4)]);
}

/// Why the rows of a cache that is bound to the end of its buffer can't be told from what lies behind it (docs/ranges.md): 256
/// rows of 256 bytes, and something else from byte 65,536 on.
#[test]
fn a_row_whose_number_comes_from_memory_may_be_any_unless_the_shader_bounds_it() {
    const ROWS: u32 = 256;
    let end = u64::from(ROWS) * 256;
    let write = |row: &str| format!("const uint r = {row}; o[r * p.a + x] = 1;");
    let push = words(&[64, ROWS]);
    let dispatch = Dispatch { push_constants: &push, groups: [1, 1, 1], base: [0; 3] };
    let open = compiled(&write("i[0]"), &Specialization::none());
    let extent = open.evaluate(&dispatch).binding(0, 0).expect("a binding").write;
    // One and the same dispatch: what memory holds decides whether it stays in the last row or lands behind it.
    for (row, lands) in [(ROWS - 1, (end - 256, end)), (ROWS, (end, end + 256))] {
        let sizes = [((0, 0), 2 * end), ((0, 1), 4)].into_iter().collect();
        let words = words_of(&write("i[0]"));
        let seen = crate::seen(&words, &Specialization::none(), &dispatch, &sizes, |_| row);
        assert_eq!(seen[&(Through::Binding(0, 0), true)], lands, "row {row}");
        let inside = match extent {
            Extent::Whole { .. } => true,
            Extent::Bytes { start, end, .. } => start <= lands.0 && lands.1 <= end,
            Extent::Nothing => false,
        };
        assert!(inside, "{extent:?} lacks what row {row} writes");
    }
    for bounded in [
        write("min(i[0], p.b - 1)"),
        write("i[0] & 255"),
        "const uint r = i[0]; if (r < p.b) o[r * p.a + x] = 1;".to_owned(),
    ] {
        let footprint = compiled(&bounded, &Specialization::none());
        let found = footprint.evaluate(&dispatch).binding(0, 0).expect("a binding").write;
        assert!(matches!(found, Extent::Bytes { start: 0, end: e, .. } if e == end), "{bounded}: {found:?}");
    }
}
