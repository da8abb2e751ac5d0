//! The report as one HTML file. It contains its style and its charts (SVG), runs no script
//! and loads nothing. Its size is bounded.

mod bounded;
mod chart;
mod escaped;

use std::fmt::{self, Write as _};

use self::bounded::bounded;
use self::chart::write_charts;
use self::escaped::Escaped;
use super::document::layout;
use super::layout::{Block, Head, Layout, Table};
use super::report::Report;

const STYLE: &str = "\
:root{color-scheme:light dark;--fg:#1b1f24;--bg:#fff;--quiet:#57606a;--line:#d0d7de;--all:#9db7d9;--no:#b93225;--code:#eef1f4}\
@media(prefers-color-scheme:dark){:root{--fg:#e6e8ea;--bg:#14171a;--quiet:#9aa4ae;--line:#3a4149;--all:#4a678d;--no:#f0806f;--code:#22272c}}\
body{font:16px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem;line-height:1.3;overflow-wrap:anywhere}h2{font-size:1.2rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:1.5rem 0 .25rem}\
p{margin:.25rem 0}ul{padding-left:1.2rem;margin:.25rem 0}li{margin:.25rem 0;overflow-wrap:anywhere}\
code{background:var(--code);padding:.1rem .4rem;border-radius:.25rem;font-size:1.05em}\
.table{overflow-x:auto}table{border-collapse:collapse;margin:.5rem 0;font-size:.95rem}\
th,td{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid var(--line);white-space:nowrap}\
th{color:var(--quiet);font-weight:600}.n{text-align:right;font-variant-numeric:tabular-nums}\
dl,footer,figcaption,.legend{color:var(--quiet);font-size:.9rem}dt{font-weight:600;display:inline}dd{display:inline;margin:0}\
dd::after{content:\"\";display:block}figure{margin:1rem 0}.legend{display:flex;align-items:center;gap:.35rem}\
.mark{width:.8rem;height:.8rem;display:inline-block;border-radius:2px}.mark:nth-of-type(2){margin-left:.75rem}\
.mark.all{background:var(--all)}.mark.no{background:var(--no)}\
.plot{display:grid;grid-template-columns:auto 1fr;column-gap:.5rem;margin-top:.5rem}\
.y{display:flex;flex-direction:column;justify-content:space-between;text-align:right;font-size:.75rem;line-height:1;color:var(--quiet);margin:-.375rem 0;min-width:2.5rem}\
svg{width:100%;height:10rem;overflow:visible}\
path.all{fill:var(--all)}path.no{fill:var(--no)}.grid{stroke:var(--line);fill:none;vector-effect:non-scaling-stroke}\
rect{fill:transparent}.x{grid-column:2;position:relative;height:1.5rem;font-size:.75rem;color:var(--quiet)}\
.x span{position:absolute;top:.25rem;border-left:1px solid var(--line);padding-left:.2rem;white-space:nowrap}\
footer{margin-top:2rem;border-top:1px solid var(--line);padding-top:.5rem}\
@media(max-width:40rem){body{margin:1rem auto}.x .second{display:none}}";
const FOOTER: &str = "A replay assumes that clients would have sent the same requests. Clients that meet a limit may \
     wait, try again or leave. All times are UTC. Written by tollgate replay ";

/// The report as a page.
pub fn page(report: &Report) -> String {
    let (report, left_out) = bounded(report);
    let mut layout = layout(&report);
    if let Some(first) = layout.sections.first_mut() {
        first.blocks.push(Block::Lines(left_out.into_iter().collect()));
    }
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_page(&mut out, &layout);
    out
}

fn write_page(out: &mut String, layout: &Layout) -> fmt::Result {
    let title = Escaped(&layout.title);
    write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    )?;
    for section in &layout.sections {
        if !section.heading.is_empty() {
            writeln!(out, "<h2>{}</h2>", Escaped(&section.heading))?;
        }
        section.blocks.iter().try_for_each(|block| write_block(out, block))?;
    }
    writeln!(out, "<footer>{FOOTER}{}.</footer>\n</body></html>", env!("CARGO_PKG_VERSION"))
}

fn write_block(out: &mut String, block: &Block) -> fmt::Result {
    match block {
        Block::Lines(lines) => {
            lines.iter().try_for_each(|line| writeln!(out, "<p>{}</p>", Escaped(line)))
        }
        Block::Items(items) => {
            out.push_str("<ul>\n");
            items.iter().try_for_each(|item| writeln!(out, "<li>{}</li>", Escaped(item)))?;
            out.push_str("</ul>\n");
            Ok(())
        }
        Block::Part(heading) => writeln!(out, "<h3>{}</h3>", Escaped(heading)),
        Block::Table(table) => write_table(out, table),
        Block::Write(lines) => lines.iter().try_for_each(|line| {
            let text = Escaped(&line.text);
            let about = Escaped(&line.about);
            writeln!(out, "<p><code>{text}</code> {about}</p>")
        }),
        Block::Chart(chart) => write_charts(out, chart),
        Block::Meanings(meanings) => {
            out.push_str("<dl>\n");
            for (word, meaning) in meanings {
                writeln!(out, "<dt>{}:</dt> <dd>{}</dd>", Escaped(word), Escaped(meaning))?;
            }
            out.push_str("</dl>\n");
            Ok(())
        }
    }
}

fn write_table(out: &mut String, table: &Table) -> fmt::Result {
    let class = |head: &Head| if matches!(head, Head::Number(_)) { " class=\"n\"" } else { "" };
    out.push_str("<div class=\"table\"><table><thead><tr>");
    for head in &table.heads {
        write!(out, "<th scope=\"col\"{}>{}</th>", class(head), Escaped(head.text()))?;
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (head, cell) in table.heads.iter().zip(row) {
            write!(out, "<td{}>{}</td>", class(head), Escaped(cell))?;
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    Ok(())
}
