//! A shorter SVG of the same picture: shapes of one look that follow each other become one path.
//! Bars, dashes and coloured cells come by the hundred, and a report holds many figures.

/// What a run of equal looks has gathered.
struct Run<'a> {
    /// The element up to its points.
    look: &'a str,
    /// The element as it was, for a run of one.
    alone: &'a str,
    count: usize,
    path: String,
}

/// Joins neighbouring polygons, and neighbouring lines, of one look. Translucent ones stay apart: where they overlap they add up.
pub(super) fn compact(svg: &str) -> String {
    let mut text = String::with_capacity(svg.len());
    let mut run: Option<Run<'_>> = None;
    for line in svg.lines() {
        let Some((look, points)) = shape(line) else {
            close(&mut text, run.take());
            text.push_str(line);
            text.push('\n');
            continue;
        };
        let is_closed = look.starts_with("<polygon");
        let piece = piece(points, is_closed);
        match &mut run {
            Some(known) if known.look == look => {
                known.count += 1;
                known.path.push_str(&piece);
            }
            _ => {
                let next = Run {
                    look,
                    alone: line,
                    count: 1,
                    path: piece,
                };
                close(&mut text, run.replace(next));
            }
        }
    }
    close(&mut text, run);
    text
}

/// Look and points of a line that holds one opaque polygon or polyline.
fn shape(line: &str) -> Option<(&str, &str)> {
    let is_shape = line.starts_with("<polygon ") || line.starts_with("<polyline ");
    let (look, rest) = line.split_once(" points=\"").filter(|_| is_shape)?;
    let points = rest.strip_suffix("\"/>")?;
    (!look.contains("opacity")).then_some((look, points.trim_end()))
}

/// The points as a piece of a path; level and upright steps need one number.
fn piece(points: &str, is_closed: bool) -> String {
    let mut path = String::from("M");
    let mut last: Option<(&str, &str)> = None;
    for point in points.split(' ') {
        let Some((x, y)) = point.split_once(',') else {
            continue;
        };
        match last {
            None => path.push_str(point),
            Some((_, same)) if same == y => path.push_str(&format!("H{x}")),
            Some((same, _)) if same == x => path.push_str(&format!("V{y}")),
            Some(_) => path.push_str(&format!("L{point}")),
        }
        last = Some((x, y));
    }
    if is_closed {
        path.push('z');
    }
    path
}

fn close(text: &mut String, run: Option<Run<'_>>) {
    let Some(run) = run else {
        return;
    };
    if run.count == 1 {
        text.push_str(run.alone);
    } else {
        let attributes = run.look.split_once(' ').map_or("", |(_, rest)| rest);
        text.push_str(&format!("<path {attributes} d=\"{}\"/>", run.path));
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_look_become_one_path_and_all_else_stays() {
        let svg = "<svg>\n\
            <polygon fill=\"#0072B2\" points=\"1,2 5,2 5,9 1,9 \"/>\n\
            <polygon fill=\"#0072B2\" points=\"6,2 8,4 7,9 \"/>\n\
            <polygon fill=\"#FFFFFF\" points=\"1,2 5,2 5,9 \"/>\n\
            <polyline fill=\"none\" stroke=\"#222222\" points=\"1,7 4,7 \"/>\n\
            <polyline fill=\"none\" stroke=\"#222222\" points=\"5,7 9,8 \"/>\n\
            <text x=\"1\">\nname\n</text>\n\
            <polygon opacity=\"0.13\" fill=\"#0072B2\" points=\"1,2 5,2 5,9 \"/>\n\
            <polygon opacity=\"0.13\" fill=\"#0072B2\" points=\"1,2 5,2 5,9 \"/>\n\
            </svg>\n";
        let expected = "<svg>\n\
            <path fill=\"#0072B2\" d=\"M1,2H5V9H1zM6,2L8,4L7,9z\"/>\n\
            <polygon fill=\"#FFFFFF\" points=\"1,2 5,2 5,9 \"/>\n\
            <path fill=\"none\" stroke=\"#222222\" d=\"M1,7H4M5,7L9,8\"/>\n\
            <text x=\"1\">\nname\n</text>\n\
            <polygon opacity=\"0.13\" fill=\"#0072B2\" points=\"1,2 5,2 5,9 \"/>\n\
            <polygon opacity=\"0.13\" fill=\"#0072B2\" points=\"1,2 5,2 5,9 \"/>\n\
            </svg>\n";
        assert_eq!(compact(svg), expected);
    }
}
