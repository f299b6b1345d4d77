//! Where a token's time goes, as plain data.
//!
//! Measuring needs a device; what the measurements mean does not. So this folder knows neither Vulkan nor a clock: from
//! spans it makes a trace that viewers read ([`trace`]) and a picture ([`picture`]), puts one token together from many with few
//! stamps each ([`sparse`]), makes the published segments of a token ([`segments`]), and a line
//! through the steps that says what a dispatch costs at least ([`fit`]). Each can be tested on made-up spans.

pub mod fit;
pub mod picture;
pub mod segments;
pub mod sparse;
pub mod trace;

/// Something with a beginning and an end, nanoseconds after a common zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// What it is.
    pub name: String,
    /// Kind of work, such as `step` or `barrier`.
    pub kind: &'static str,
    /// Beginning.
    pub begin: f64,
    /// End, not before the beginning.
    pub end: f64,
}

impl Span {
    /// Its length, nanoseconds.
    pub fn length(&self) -> f64 {
        self.end - self.begin
    }
}

/// One token on both clocks, brought to one.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    /// What the host did, in order, without gaps: from the first to the last it is the whole token.
    pub cpu: Vec<Span>,
    /// What the device did: steps, and between them barriers or gaps.
    pub gpu: Vec<Span>,
    /// For each span of the device, the number of the step if it is one.
    pub steps: Vec<Option<usize>>,
}

impl Token {
    /// Makes a token of the host's spans and the device's stamps (nanoseconds: beginning and end of the whole, then of each
    /// step), of which the first was at `began` on the host's clock. `names` are the steps' names, `barrier`
    /// says whether one stands before a step; after the last one always does.
    pub fn aligned(cpu: Vec<Span>, began: f64, stamps: &[f64], names: &[String], barrier: &[bool]) -> Self {
        let (Some(&first), Some(&last)) = (stamps.first(), stamps.get(1)) else {
            return Self { cpu, gpu: Vec::new(), steps: Vec::new() };
        };
        let mut token = Self { cpu, gpu: Vec::new(), steps: Vec::new() };
        let mut now = first;
        let mut add = |name: &str, kind: &'static str, until: f64, step: Option<usize>| {
            // Stamps never go back on one queue; rounding of ticks must not make them.
            let until = until.clamp(now, last.max(now));
            if until > now || step.is_some() {
                let (begin, end) = (began - first + now, began - first + until);
                token.gpu.push(Span { name: name.to_owned(), kind, begin, end });
                token.steps.push(step);
            }
            now = until;
        };
        for (i, (name, stamps)) in names.iter().zip(stamps[2..].chunks_exact(2)).enumerate() {
            let kind = if barrier.get(i).copied().unwrap_or(false) { "barrier" } else { "gap" };
            add(kind, kind, stamps[0], None);
            add(name, "step", stamps[1], Some(i));
        }
        add("barrier", "barrier", last, None);
        token
    }

    /// Nanoseconds from the host's first span to its last.
    pub fn length(&self) -> f64 {
        match (self.cpu.first(), self.cpu.last()) {
            (Some(first), Some(last)) => last.end - first.begin,
            _ => 0.0,
        }
    }

    /// Nanoseconds that the device took.
    pub fn on_device(&self) -> f64 {
        self.gpu.iter().map(Span::length).sum()
    }

    /// Nanoseconds that the host waited.
    pub fn waited(&self) -> f64 {
        self.cpu.iter().filter(|span| span.name == "wait").map(Span::length).sum()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn span(name: &str, begin: f64, end: f64) -> Span {
        Span { name: name.to_owned(), kind: "host", begin, end }
    }

    /// 1000 ns: 100 record, 100 submit, 700 wait, 50 read, 50 sampling; 650 on the device.
    pub(crate) fn token() -> Token {
        let cpu = vec![
            span("record", 0.0, 100.0),
            span("submit", 100.0, 200.0),
            span("wait", 200.0, 900.0),
            span("host read", 900.0, 950.0),
            span("sampling", 950.0, 1000.0),
        ];
        let names = ["ffn_up", "softmax", "ffn_silu", "output"].map(str::to_owned);
        let stamps = [0.0, 650.0, 0.0, 200.0, 230.0, 330.0, 330.0, 400.0, 420.0, 640.0];
        Token::aligned(cpu, 250.0, &stamps, &names, &[false, true, false, true])
    }

    #[test]
    fn the_device_begins_where_its_clock_says_and_barriers_fill_what_lies_between_steps() {
        let token = token();
        assert_eq!(token.gpu.last().unwrap().end, 900.0);
        assert_eq!(token.gpu[0].begin, 250.0);
        let kinds: Vec<_> = token.gpu.iter().map(|span| span.kind).collect();
        assert_eq!(kinds, ["step", "barrier", "step", "step", "barrier", "step", "barrier"]);
        assert!(token.gpu.windows(2).all(|pair| pair[0].end == pair[1].begin));
        assert_eq!((token.length(), token.on_device(), token.waited()), (1000.0, 650.0, 700.0));
    }

    #[test]
    fn stamps_that_go_back_make_no_negative_span() {
        let names = ["a", "b"].map(str::to_owned);
        let token =
            Token::aligned(Vec::new(), 0.0, &[0.0, 10.0, 0.0, 8.0, 7.0, 12.0], &names, &[false, true]);
        assert!(token.gpu.iter().all(|span| span.length() >= 0.0), "{token:?}");
        assert_eq!(token.on_device(), 10.0);
    }
}
