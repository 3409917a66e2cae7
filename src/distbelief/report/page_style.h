#pragma once

// The constant text of report.html.
namespace distbelief::report {

inline constexpr const char* kPageStyle = R"css(
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#1c2330;--soft:#667085;--line:#e3e7ee;--c1:#2563eb;
--c2:#d97706;--c3:#059669;--c4:#8b5cf6;--c5:#dc2626;--c6:#8a94a6;--heat:37,99,235}
@media(prefers-color-scheme:dark){:root{--bg:#12151b;--card:#1b2028;--ink:#e6e9ef;--soft:#98a2b3;--line:#2c333f;
--c1:#6ea8ff;--c2:#f5a742;--c3:#3ecf9a;--c4:#b197fc;--c5:#ff7b72;--c6:#8b95a7;--heat:110,168,255}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1320px;margin:0 auto;padding:24px 20px 60px}
h1{font-size:24px;margin:0 0 2px;overflow-wrap:anywhere}h2{font-size:17px;margin:34px 0 12px}
p{margin:0}.soft{color:var(--soft)}
.status{display:inline-block;margin-left:10px;padding:1px 10px;border-radius:99px;font-size:13px;font-weight:600;
vertical-align:3px;background:color-mix(in srgb,var(--s) 16%,transparent);color:var(--s)}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:20px 0 24px}
.figures div{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:10px 14px}
.figures dt{font-size:12.5px;color:var(--soft)}.figures dd{margin:0;font-size:20px;font-weight:600;
font-variant-numeric:tabular-nums}
.grid2{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,520px),1fr));gap:16px}
figure,.card{margin:0;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 16px 8px;
position:relative;min-width:0}
figcaption{font-weight:600;display:flex;flex-wrap:wrap;gap:4px 16px;justify-content:space-between;margin-bottom:6px}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 14px;margin:0;padding:0;font-weight:400;font-size:13px;
color:var(--soft)}
.marks{margin:0 0 12px}.legend.marks i{width:3px;border-radius:0}
.legend i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:5px;background:var(--c)}
.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}.c5{--c:var(--c5)}.c6{--c:var(--c6)}
svg{display:block;width:100%;height:auto}svg text{font-size:11.5px;fill:var(--soft)}
.chart .y{text-anchor:end}.chart .x,.chart .name{text-anchor:middle}
.grid{stroke:var(--line)}.axis,.tick{stroke:var(--soft)}
.line{fill:none;stroke:var(--c);stroke-width:1.8;stroke-linejoin:round}
.band{fill:var(--c);opacity:.18}.area{fill:var(--c);opacity:.85}circle,.bar{fill:var(--c)}
.mark{stroke-width:1.5;fill:none}.mark.loss{stroke:var(--c5);stroke-dasharray:4 3}
.mark.scaling{stroke:var(--c4);stroke-dasharray:2 3}.mark.checkpoint{stroke:var(--c3)}.mark.other{stroke:var(--c6)}
.cursor{stroke:var(--soft);stroke-dasharray:2 2;pointer-events:none}
.tip{position:absolute;pointer-events:none;background:var(--ink);color:var(--card);border-radius:6px;padding:4px 9px;
font-size:12.5px;line-height:1.4;white-space:nowrap;z-index:2;font-variant-numeric:tabular-nums}
.none{color:var(--soft);padding:40px 0;text-align:center}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th{text-align:left;color:var(--soft);font-weight:500}th,td{padding:4px 12px 4px 0;border-bottom:1px solid var(--line);
vertical-align:top}td:last-child{overflow-wrap:anywhere}
.kind{white-space:nowrap;font-weight:600}.kind.loss{color:var(--c5)}.kind.scaling{color:var(--c4)}.kind.checkpoint{
color:var(--c3)}
.samples{display:grid;grid-template-columns:repeat(auto-fill,minmax(76px,1fr));gap:10px;margin:8px 0 14px}
img.sheet{width:min(100%,640px);image-rendering:pixelated;border-radius:6px}
.samples div{font-size:12.5px;line-height:1.35;overflow-wrap:anywhere}
.samples img{width:100%;aspect-ratio:1;object-fit:contain;image-rendering:pixelated;border-radius:6px;background:var(--bg)}
.right b{color:var(--c3)}.wrong b{color:var(--c5)}
.confusion text{text-anchor:middle;fill:var(--ink)}.confusion .label{fill:var(--soft)}
.confusion rect{fill:rgb(var(--heat))}.confusion .full{fill:var(--card)}
pre.text{white-space:pre-wrap;overflow-wrap:anywhere}
pre{overflow:auto;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px;font-size:13px}
summary{cursor:pointer}
)css";

// Shows the values under the pointer; reads them from the SVG paths.
inline constexpr const char* kPageScript = R"js(
"use strict";
(() => {
const left = 58, right = 626, top_ = 14, bottom = 238;
const short = v => Math.abs(v) >= 1e6 ? (v / 1e6).toPrecision(4) + "M" : String(+v.toPrecision(4));
const clock = s => s < 60 ? s.toFixed(1) + " s" : s < 3600 ? Math.floor(s / 60) + " min " + Math.round(s % 60) + " s"
  : Math.floor(s / 3600) + " h " + Math.round(s % 3600 / 60) + " min";
const points = path => (path.getAttribute("d").match(/-?[\d.]+/g) || []).map(Number);
for (const svg of document.querySelectorAll("svg.chart")) {
  const lines = [...svg.querySelectorAll("path.line")];
  if (!lines.length) continue;
  const [x0, x1] = svg.dataset.x.split(" ").map(Number), [y0, y1] = svg.dataset.y.split(" ").map(Number);
  const value = py => { const s = (bottom - py) / (bottom - top_);
    return svg.dataset.log === "1" ? y0 * Math.pow(y1 / y0, s) : y0 + s * (y1 - y0); };
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
  cursor.setAttribute("class", "cursor");
  const tip = document.createElement("div");
  tip.className = "tip"; tip.hidden = true;
  svg.append(cursor); svg.parentNode.append(tip);
  const nearest = (all, px) => { let best = 0;
    for (let i = 0; i < all.length; i += 2) if (Math.abs(all[i] - px) < Math.abs(all[best] - px)) best = i;
    return best; };
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), px = (event.clientX - box.left) * 640 / box.width;
    if (px < left || px > right) return;
    const first = points(lines[0]), at = first[nearest(first, px)];
    const x = x0 + (at - left) / (right - left) * (x1 - x0);
    const rows = [svg.dataset.kind === "time" ? clock(x) : "step " + Math.round(x)];
    for (const line of lines) { const all = points(line), i = nearest(all, at);
      if (Math.abs(all[i] - at) < 12) rows.push((lines.length > 1 ? line.dataset.name + " " : "") + short(value(all[i + 1]))); }
    cursor.setAttribute("d", "M" + at + " " + top_ + "V" + bottom);
    tip.textContent = rows.join(" \u00b7 "); tip.hidden = false;
    const place = svg.offsetLeft || 16, pixel = at * box.width / 640;
    tip.style.top = "44px"; tip.style.left = Math.max(8, Math.min(box.width - tip.offsetWidth, place + pixel + 10)) + "px";
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; cursor.setAttribute("d", ""); });
}
})();
)js";

}  // namespace distbelief::report
