//! Where a label fits: at the end of its line where it hides the fewest courses.

/// A corner of a course, in tenths of a pixel.
pub type Place = (i32, i32);

/// The rectangle of a label, in tenths of a pixel.
#[derive(Clone, Copy)]
pub struct Area {
    pub left: i32,
    pub right: i32,
    pub top: i32,
    pub bottom: i32,
}

impl Area {
    /// How many of these courses pass through it.
    pub fn hidden(self, courses: &[Vec<Place>]) -> usize {
        courses
            .iter()
            .filter(|course| self.is_crossed(course))
            .count()
    }

    fn is_crossed(self, course: &[Place]) -> bool {
        let pieces = course
            .windows(2)
            .filter_map(|ends| self.piece(ends[0], ends[1]));
        let reach = pieces.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        reach.is_some_and(|(top, bottom)| top <= self.bottom && self.top <= bottom)
    }

    /// From top to bottom, what lies between left and right of a straight piece.
    fn piece(self, from: Place, to: Place) -> Option<(i32, i32)> {
        let (from, to) = if from.0 <= to.0 {
            (from, to)
        } else {
            (to, from)
        };
        let (left, right) = (from.0.max(self.left), to.0.min(self.right));
        let [x0, y0, x1, y1] = [from.0, from.1, to.0, to.1].map(f64::from);
        // Forecasts may end far outside.
        let at =
            |x: i32| (y0 + (f64::from(x) - x0) / (x1 - x0).max(1.0) * (y1 - y0)).round() as i32;
        (left <= right).then(|| (at(left).min(at(right)), at(left).max(at(right))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn courses_through_a_label_are_counted() {
        let area = Area {
            left: 10,
            right: 20,
            top: 10,
            bottom: 20,
        };
        let through = vec![(0, 0), (30, 30)];
        let below = vec![(0, 25), (15, 40), (30, 25)];
        let beside = vec![(25, 0), (25, 100)];
        let around = vec![(30, 5), (0, 5), (0, 25), (30, 25)];
        assert_eq!(area.hidden(&[through, below.clone(), beside.clone()]), 1);
        assert_eq!(area.hidden(&[below, beside]), 0);
        assert_eq!(area.hidden(&[around]), 1, "it lies inside a shade");
    }
}
