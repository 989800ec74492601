use coop_api::Size;
use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;

fn size(cols: u32, rows: u32) -> Size {
    Size::new(cols, rows).expect("a size within bounds")
}

fn screen(cols: u32, rows: u32, bytes: &[u8]) -> Screen {
    let mut screen = Screen::new(size(cols, rows));
    screen.feed(bytes);
    screen
}

fn text(screen: &mut Screen) -> String {
    screen.snapshot().lines.iter().map(|line| line.plain()).collect::<Vec<_>>().join("\n")
}

/// Everything a viewer can tell apart, without when it changed.
fn look(screen: &mut Screen) -> String {
    let shown = screen.snapshot();
    let lines: Vec<_> = shown.lines.iter().map(|line| (&line.text, &line.runs, line.wrapped)).collect();
    format!("{lines:?} {:?} {:?} {:?} {:?} {:?}", shown.cursor, shown.modes, shown.title, shown.cwd, shown.size)
}

fn replies(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&screen(80, 24, bytes).take_replies()).escape_debug().to_string()
}

#[test]
fn text_wraps_and_scrolls() {
    let mut screen = screen(5, 3, b"one\r\ntwothree\r\nfour");
    assert_eq!(text(&mut screen), "twoth\nree\nfour");
    assert!(screen.snapshot().lines[0].wrapped);
    assert_eq!(screen.history(9).iter().map(|line| line.plain().to_owned()).collect::<Vec<_>>(), ["one"]);
}

#[test]
fn wide_and_combining_characters_keep_their_cells() {
    let mut screen = screen(6, 2, "a漢e\u{301}👍🏽".as_bytes());
    let shown = screen.snapshot();
    assert_eq!(shown.lines[0].text, "a漢e\u{301}👍");
    assert_eq!(shown.lines[0].cells(), 6);
    assert_eq!(shown.lines[1].text, "🏽");
}

#[test]
fn half_a_wide_character_never_stays() {
    let mut screen = screen(6, 1, "漢字漢\x1b[2Gx\x1b[5G\x1b[K".as_bytes());
    assert_eq!(text(&mut screen), " x字");
}

/// A dump cannot put the cursor elsewhere in origin mode, so a viewer that joined late saw it in another row.
#[test]
fn cursor_restored_in_origin_mode_is_inside_the_scroll_region() {
    let mut screen = screen(20, 6, b"\x1b[?6h\x1b7\x1b[2;4r\x1b8");
    assert_eq!(screen.snapshot().cursor.row, 1);
}

#[test]
fn queries_are_answered() {
    assert_snapshot!(replies(b"\x1b[c\x1b[>c\x1b[=c"), @r"\u{1b}[?62;22c\u{1b}[>0;277;0c\u{1b}P!|00000000\u{1b}\\");
    assert_snapshot!(replies(b"\x1b[5n\x1b[3;4H\x1b[6n"), @r"\u{1b}[0n\u{1b}[3;4R");
    assert_snapshot!(replies(b"\x1b]11;?\x07\x1b]10;?\x1b\\"), @r"\u{1b}]11;rgb:0000/0000/0000\u{7}\u{1b}]10;rgb:e5e5/e5e5/e5e5\u{1b}\\");
    assert_snapshot!(replies(b"\x1b[?2026$p\x1b[?25$p\x1b[?4242$p\x1b[4$p"), @r"\u{1b}[?2026;2$y\u{1b}[?25;1$y\u{1b}[?4242;0$y\u{1b}[4;2$y");
    assert_snapshot!(replies(b"\x1b[>q\x1b[?u\x1b[>5u\x1b[?u"), @r"\u{1b}P>|coop(0.1.0)\u{1b}\\\u{1b}[?0u\u{1b}[?5u");
    assert_snapshot!(replies(b"\x1b[18t\x1b[14t\x1b[16t"), @r"\u{1b}[8;24;80t\u{1b}[4;480;800t\u{1b}[6;20;10t");
    assert_snapshot!(replies(b"\x1bP$qm\x1b\\\x1bP$qr\x1b\\\x1bP+q544e;4142\x1b\\"), @r"\u{1b}P1$r0m\u{1b}\\\u{1b}P1$r1;24r\u{1b}\\\u{1b}P1+r544e=787465726D2D323536636F6C6F72\u{1b}\\\u{1b}P0+r4142\u{1b}\\");
}

#[test]
fn the_title_is_never_typed_back() {
    assert_snapshot!(replies(b"\x1b]2;rm -rf ~\r\x07\x1b[21t"), @r"\u{1b}]l\u{1b}\\");
}

#[test]
fn a_synchronized_frame_is_shown_whole_or_not_at_all() {
    let mut screen = screen(10, 2, b"before\x1b[?2026h\x1b[H\x1b[2Jafter");
    assert!(screen.open_frame().is_some());
    assert_eq!(text(&mut screen), "before\n");
    screen.feed(b"wards\x1b[?20");
    assert_eq!(text(&mut screen), "before\n");
    screen.feed(b"26l!");
    assert!(screen.open_frame().is_none());
    assert_eq!(text(&mut screen), "afterwards\n!");
}

#[test]
fn a_frame_that_never_ends_is_shown_when_told() {
    let mut screen = screen(10, 1, b"\x1b[?2026hlate\x1b[?2026h r");
    screen.end_frame();
    assert_eq!(text(&mut screen), "late r");
    assert!(!screen.modes().synchronized);
    screen.feed(b"!");
    assert_eq!(text(&mut screen), "late r!");
}

#[test]
fn an_endless_control_string_costs_little_and_hides_nothing_after_it() {
    let mut screen = screen(20, 1, b"\x1b]2;");
    for _ in 0..64 {
        screen.feed(&[b'x'; 64 * 1024]);
    }
    screen.feed(b"\x07hello\x1b]2;title\x07");
    assert_eq!(text(&mut screen), "hello");
    assert_eq!(&*screen.snapshot().title, "title");
}

/// Found by the fuzzer: a control within an unfinished sequence was obeyed again when a dump was reloaded.
#[test]
fn a_control_within_a_sequence_is_obeyed_once() {
    for bytes in [&b"0\x1b\xe8\n"[..], b"\x1b\x1e[,1u\xf3[", b"\x1b\x1b[?2-26l[A'", b"\x1b\xff[$?\x1eJ\xba"] {
        let mut original = screen(10, 4, bytes);
        let mut copy = screen(10, 4, &original.dump());
        assert_eq!(look(&mut copy), look(&mut original), "{bytes:?}");
    }
}

#[test]
fn only_changed_rows_are_new() {
    let mut screen = screen(10, 3, b"one\r\ntwo\r\nthree");
    let first = screen.snapshot();
    screen.feed(b"\x1b[2;1HTWO");
    let second = screen.snapshot();
    let changed: Vec<_> = second.lines.iter().map(|line| line.seq > first.seq).collect();
    assert_eq!(changed, [false, true, false]);
}

#[test]
fn styles_links_and_directories_are_known() {
    let mut screen = screen(
        40,
        1,
        b"\x1b]7;file://host/tmp/a%20b\x07\x1b[1;38;2;1;2;3mhi\x1b[0m \x1b]8;;http://x\x07link\x1b]8;;\x07",
    );
    let shown = screen.snapshot();
    assert_eq!(shown.cwd.as_deref(), Some("/tmp/a b"));
    assert_snapshot!(shown.lines[0].ansi().escape_debug(), @r"\u{1b}[0;1;38;2;1;2;3mhi\u{1b}[0m \u{1b}[0m\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\\u{1b}[0m");
}

/// A frame that began in the same read as the one before it ended inherited what was left of that one's patience.
#[test]
fn the_next_frame_is_another_one() {
    let mut screen = screen(20, 2, b"\x1b[?2026hone");
    let first = screen.open_frame();
    screen.feed(b"...");
    assert_eq!(screen.open_frame(), first);
    screen.feed(b"\x1b[?2026l\x1b[?2026htwo");
    assert!(first.is_some() && screen.open_frame().is_some() && screen.open_frame() != first);
}

/// Links that nothing shows any more were kept until there were 65,535 of them, each as long as a link may be.
#[test]
fn links_are_forgotten_with_the_text_that_had_them() {
    let mut screen = Screen::new(size(20, 6));
    let long = "x".repeat(2000);
    for n in 0..6000 {
        screen.feed(format!("\x1b]8;;http://{n}/{long}\x07{n}\x1b]8;;\x07\r\n").as_bytes());
        assert!(screen.performer.term.extras.len() <= 3000, "{n}");
    }
    let last = screen.snapshot().lines[4].ansi();
    assert!(last.contains("http://5999/"), "{last}");
}

#[test]
fn more_looks_than_there_is_room_for_are_left_out_and_there_is_room_again() {
    let mut screen = Screen::new(size(100, 50));
    for n in 0..70_000 {
        screen.feed(format!("\x1b[58;2;{};{};{}mx", n >> 16, (n >> 8) & 255, n & 255).as_bytes());
    }
    assert!(screen.performer.term.extras.len() <= 65_535);
    screen.feed(b"\x1bc");
    for n in 0..5000 {
        screen.feed(format!("\x1b[58;5;{}mx\x1b]8;;http://{n}\x07", n & 255).as_bytes());
    }
    screen.feed(b"\r\x1b]8;;http://seen\x07y");
    let shown = screen.snapshot();
    assert!(shown.lines.iter().any(|line| line.ansi().contains("http://seen")));
}

/// The parser hands a device control string on byte by byte, which looked like output, so that one without an end was
/// kept whole; and so was a control sequence without an end that had a control in it now and then.
#[test]
fn sequences_without_an_end_cost_little() {
    for (begin, middle, end) in [
        (&b"\x1bPq"[..], &b"#0;2;0;0;0~\x07"[..], &b"\x1b\\"[..]),
        (b"\x1b_G", b"AAAA", b"\x1b\\"),
        (b"\x1b]52;c;", b"QUFB", b"\x07"),
        (b"\x1b[", b"1;2\r", b"m"),
        (b"\x1b(", b"(((\r", b"B"),
    ] {
        let mut original = screen(20, 2, begin);
        for _ in 0..MAX_STRING / 64 {
            original.feed(&middle.repeat(64));
            assert!(original.unfinished.capacity() <= 2 * (MAX_STRING + STRIDE), "{}", begin.escape_ascii());
        }
        let dump = original.dump();
        assert!(dump.len() <= 2 * MAX_STRING, "{}", begin.escape_ascii());
        let mut copy = screen(20, 2, &dump);
        for screen in [&mut original, &mut copy] {
            screen.feed(end);
            screen.feed(b"after");
            assert_eq!(text(screen), "after\n", "{}", begin.escape_ascii());
        }
    }
}

/// Bytes that look like what programs send: text, controls, sequences with plausible parameters.
fn output() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[ -~]{1,20}".prop_map(String::into_bytes),
        2 => "[漢é\u{301}👍🏽あ\u{200d}\u{fe0f}שع]{1,6}".prop_map(String::into_bytes),
        2 => prop::sample::select(vec!["\r\n", "\n", "\r", "\t", "\x08", "\x0e", "\x0f", "\x07"])
            .prop_map(|text| text.as_bytes().to_vec()),
        6 => ("[?>=!]?", prop::collection::vec(0_u16..60, 0..4), "[ $]?", "[@-Z`a-z]").prop_map(
            |(mark, numbers, middle, last)| {
                let numbers: Vec<_> = numbers.iter().map(u16::to_string).collect();
                format!("\x1b[{mark}{}{middle}{last}", numbers.join(";")).into_bytes()
            }
        ),
        2 => ("[?]", prop::sample::select(vec![1, 6, 7, 25, 45, 47, 1000, 1047, 1049, 2004]), "[hl]")
            .prop_map(|(mark, mode, last)| format!("\x1b[{mark}{mode}{last}").into_bytes()),
        1 => prop::sample::select(vec![
            "\x1b7", "\x1b8", "\x1bD", "\x1bE", "\x1bH", "\x1bM", "\x1b#8", "\x1b(0", "\x1b)0", "\x1b(B", "\x1b=",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => "\x1b\\][0-9]{1,2};[ -~]{0,12}(\x07|\x1b\\\\)".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_chunking_shows_the_same(bytes in output(), cuts in prop::collection::vec(0_usize..400, 0..8)) {
        let mut whole = screen(20, 6, &bytes);
        let mut pieces = Screen::new(size(20, 6));
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            pieces.feed(&bytes[pair[0]..pair[1]]);
        }
        prop_assert_eq!(look(&mut pieces), look(&mut whole));
        prop_assert_eq!(pieces.take_replies(), whole.take_replies());
    }

    /// Lines are drawn when somebody looks: what there is to see must not depend on who looks when.
    #[test]
    fn looking_on_changes_nothing(
        start in output(),
        lines in prop::collection::vec("[ -~]{0,12}(\r\n){1,3}|[ -~]{0,12}(\r\n){1,3}|[ -~]{0,12}(\r\n){1,3}|[ -~]{15,22}(\r\n|\n|\r)?", 1..60),
        repeats in 1_usize..60,
        cut in 1_usize..300,
        end in output(),
    ) {
        let mut unseen = screen(20, 6, &start);
        let mut watched = screen(20, 6, &start);
        let text = lines.concat().repeat(repeats);
        text.as_bytes().chunks(cut).for_each(|piece| unseen.feed(piece));
        for piece in text.as_bytes().chunks(cut) {
            watched.feed(piece);
            watched.snapshot();
        }
        unseen.feed(&end);
        watched.feed(&end);
        prop_assert_eq!(unseen.history(2000), watched.history(2000));
        unseen.end_frame();
        watched.end_frame();
        prop_assert_eq!(look(&mut unseen), look(&mut watched));
    }

    #[test]
    fn a_dump_reloads_equal(bytes in output(), cols in 2_u32..30, rows in 1_u32..8) {
        let mut original = screen(cols, rows, &bytes);
        original.end_frame();
        let dump = original.dump();
        let mut copy = screen(cols, rows, &dump);
        prop_assert_eq!(look(&mut copy), look(&mut original), "dump: {:?}", String::from_utf8_lossy(&dump));
    }

    #[test]
    fn a_dump_at_any_place_goes_on_as_the_original(bytes in output(), cut in 0_usize..400) {
        let (before, after) = bytes.split_at(cut.min(bytes.len()));
        let mut original = screen(20, 6, before);
        let mut copy = Screen::new(size(20, 6));
        original.end_frame();
        copy.feed(&original.dump());
        // What is saved, and what REP would repeat, is not in a dump.
        let known = |after: &[u8]| !after.windows(2).any(|pair| matches!(pair, b"\x1b8" | b"\x1bM"))
            && !after.iter().any(|byte| matches!(byte, b'u' | b'l' | b'b' | b'o' | b'n' | b'r' | b'p' | b'*' | b'+'));
        if known(after) {
            original.feed(after);
            copy.feed(after);
            original.end_frame();
            copy.end_frame();
            prop_assert_eq!(look(&mut copy), look(&mut original));
        }
    }

    #[test]
    fn a_dump_within_a_frame_goes_on_as_the_original(before in output(), frame in output(), after in output()) {
        let mut original = screen(20, 6, &before);
        original.end_frame();
        // Whatever is unfinished before the frame would swallow its beginning.
        original.feed(b"\x18\x1b[?2026h");
        original.feed(&frame);
        let mut copy = screen(20, 6, &original.dump());
        prop_assert_eq!(copy.open_frame().is_some(), original.open_frame().is_some());
        original.end_frame();
        copy.end_frame();
        let known = |bytes: &[u8]| !bytes.windows(2).any(|pair| matches!(pair, b"\x1b8" | b"\x1bM"))
            && !bytes.iter().any(|byte| matches!(byte, b'u' | b'l' | b'b' | b'o' | b'n' | b'r' | b'p' | b'*' | b'+'));
        if known(&frame) && known(&after) {
            original.feed(&after);
            copy.feed(&after);
            original.end_frame();
            copy.end_frame();
            prop_assert_eq!(look(&mut copy), look(&mut original));
        }
    }

    #[test]
    fn resizing_never_panics(bytes in output(), sizes in prop::collection::vec((2_u32..80, 1_u32..30), 1..12)) {
        let mut screen = screen(20, 6, &bytes);
        for (cols, rows) in sizes {
            screen.resize(size(cols, rows));
            screen.feed(&bytes);
            let shown = screen.snapshot();
            prop_assert_eq!(shown.lines.len(), rows as usize);
            prop_assert!(shown.cursor.row < rows as u16 && shown.cursor.col < cols as u16);
            prop_assert!(shown.lines.iter().all(|line| line.cells() <= cols as usize));
        }
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut screen = screen(20, 6, &bytes);
        screen.end_frame();
        screen.snapshot();
        screen.dump();
    }
}
