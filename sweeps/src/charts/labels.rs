//! Where the names of points go, so that no name lies on another or on a point.
//!
//! A name stands right of its point where there is room, else left, else above or below in steps; one that had to move
//! away is tied to its point by a thin line. Widths are guessed from the number of letters, since whoever views an SVG
//! brings the font.

/// Pixels of a letter, generously.
const LETTER: i32 = 8;
/// Pixels of a line.
const LINE: i32 = 16;
/// Pixels from a point's centre to its name.
const GAP: i32 = 11;

/// A rectangle: left, top, right, bottom.
type Rectangle = [i32; 4];

/// Places names within a width and a height, given all points.
pub struct Labels {
    width: i32,
    height: i32,
    taken: Vec<Rectangle>,
}

/// Where a name goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The end of the name that is nearest to its point.
    pub x: i32,
    /// Its middle.
    pub y: i32,
    /// Whether the name stands left of `x`.
    pub left: bool,
    /// Whether it is so far off that it must be tied to its point.
    pub away: bool,
}

impl Labels {
    /// For points at `points`, in an area of that size.
    pub fn new((width, height): (u32, u32), points: impl IntoIterator<Item = (i32, i32)>) -> Labels {
        let taken = points.into_iter().map(|(x, y)| [x - 7, y - 7, x + 7, y + 7]).collect();
        Labels { width: width as i32, height: height as i32, taken }
    }

    /// The place of a name of so many letters, which is then taken.
    pub fn place(&mut self, (x, y): (i32, i32), letters: usize) -> Place {
        let long = letters as i32 * LETTER;
        let offsets = (0..12).flat_map(|n| [n * LINE, -n * LINE]);
        let places = offsets.flat_map(|dy| [false, true].map(|left| (dy, left)));
        let rectangle = |dy: i32, left: bool| {
            let (from, to) = if left { (x - GAP - long, x - GAP) } else { (x + GAP, x + GAP + long) };
            [from, y + dy - LINE / 2, to, y + dy + LINE / 2]
        };
        let fits = |r: &Rectangle| {
            let inside = r[0] >= 0 && r[2] <= self.width && r[1] >= 0 && r[3] <= self.height;
            inside && !self.taken.iter().any(|t| meet(t, r))
        };
        let found = places.clone().find(|(dy, left)| fits(&rectangle(*dy, *left)));
        // Where there is no room at all, a name on another is better than none.
        let (dy, left) = found.unwrap_or((0, false));
        self.taken.push(rectangle(dy, left));
        Place { x: if left { x - GAP } else { x + GAP }, y: y + dy, left, away: dy != 0 }
    }
}

fn meet(a: &Rectangle, b: &Rectangle) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_lonely_point_has_its_name_on_its_right_and_one_at_the_edge_on_its_left() {
        let mut labels = Labels::new((400, 100), [(50, 50), (390, 50)]);
        assert_eq!(labels.place((50, 50), 5), Place { x: 61, y: 50, left: false, away: false });
        assert_eq!(labels.place((390, 50), 5), Place { x: 379, y: 50, left: true, away: false });
    }

    #[test]
    fn names_of_one_point_are_written_one_below_the_other() {
        let mut labels = Labels::new((400, 200), [(200, 100); 3]);
        let places = [0; 3].map(|_| labels.place((200, 100), 12));
        assert!(!places[0].left && places[1].left && places[2].away, "{places:?}");
    }

    proptest! {
        #[test]
        fn no_name_lies_on_another_or_on_a_point_where_there_is_room(
            points in prop::collection::vec((100i32..700, 200i32..300), 1..7)
        ) {
            let mut labels = Labels::new((800, 500), points.clone());
            for point in &points {
                labels.place(*point, 10);
            }
            let (marks, names) = labels.taken.split_at(points.len());
            for (i, name) in names.iter().enumerate() {
                prop_assert!(names[..i].iter().chain(marks).all(|other| !meet(name, other)));
            }
        }
    }
}
