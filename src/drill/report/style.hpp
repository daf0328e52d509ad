// The style of the page, and nothing else: what the elements of html.cpp look like.
//
// Colours are variables, chosen twice; a mark has a letter beside its colour. Without a < or an &
// it needs no escaping in XML.
#pragma once

namespace sabot::drill::report {

inline constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; --page: #fff; --text: #1c1e21; --quiet: #5f6670; --line: #d8dce1;
  --raised: #f5f6f8; --good: #1a7f37; --bad: #c1121f; --skipped: #8a6100; --bar: #b9d3f0;
  --bar-later: #bfe3c6; --fault: #c1121f; --detection: #b35900; --abort: #7a3db8;
  --restart: #1a7f37; --ended: #57606a; --deadline: #000; --on-mark: #fff; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --text: #e4e7eb; --quiet: #9aa3ad;
  --line: #343a42; --raised: #1d2127; --good: #4cc26a; --bad: #ff6b6b; --skipped: #e0b040;
  --bar: #294766; --bar-later: #25512f; --fault: #ff6b6b; --detection: #f0a050; --abort: #c79bf2;
  --restart: #4cc26a; --ended: #aab2bb; --deadline: #fff; --on-mark: #14171b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1rem; background: var(--page);
  color: var(--text); font: 1rem/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; }
h2 { font-size: 1.05rem; margin: 0; }
code, pre { font: .82rem/1.4 ui-monospace, monospace; }
pre { margin: .4rem 0; padding: .5rem; overflow-x: auto; background: var(--raised);
  white-space: pre-wrap; }
.quiet, dt { color: var(--quiet); }
.sentence { font-size: 1.1rem; font-weight: 600; margin: .3rem 0; }
.holds .verdict, .sentence.holds { color: var(--good); }
.fails .verdict, .sentence.fails { color: var(--bad); }
.skipped .verdict, .sentence.skipped { color: var(--skipped); }
.verdict { font-weight: 700; margin-right: .5em; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .1rem .8rem;
  margin: .5rem 0; }
dl.facts dd { margin: 0; }
.filter { display: block; margin: 1rem 0; padding: .5rem .7rem; border: 1px solid var(--line);
  border-radius: .4rem; }
#only-failing:checked ~ main .holds, #only-failing:checked ~ main .skipped { display: none; }
#only-failing { float: left; margin: .85rem .6rem; transform: scale(1.3); }
.filter { padding-left: 2.4rem; }
article { border-top: 1px solid var(--line); padding: .9rem 0; }
.numbers { display: flex; flex-wrap: wrap; gap: .1rem 1.2rem; margin: .3rem 0; padding: 0;
  list-style: none; }
.numbers b { font-weight: 600; }
.complaints { margin: .3rem 0; padding-left: 1.2rem; color: var(--bad); }
.skipped .complaints { color: var(--skipped); }
.timeline { margin: .6rem 0 .2rem; }
.lane { display: flex; align-items: center; margin: .15rem 0; }
.lane .who { flex: 0 0 4rem; font-size: .8rem; color: var(--quiet); }
.track { position: relative; flex: 1; height: 1.5rem; margin-right: .6rem;
  background: var(--raised); }
.bar { position: absolute; top: .35rem; bottom: .35rem; background: var(--bar); min-width: 1px; }
.bar.later { background: var(--bar-later); }
.mark { position: absolute; top: .15rem; width: 1.2rem; height: 1.2rem; margin-left: -.6rem;
  border-radius: .6rem; font: 700 .75rem/1.2rem system-ui, sans-serif; text-align: center;
  color: var(--on-mark); }
.fault { background: var(--fault); } .detection { background: var(--detection); }
.abort { background: var(--abort); } .restart { background: var(--restart); }
.ended { background: var(--ended); } .deadline { background: var(--deadline); }
.axis .track { height: 1.1rem; background: none; }
.tick { position: absolute; top: 0; padding-left: .2rem; border-left: 1px solid var(--line);
  font-size: .7rem; color: var(--quiet); white-space: nowrap; }
.tick.last { border-left: 0; border-right: 1px solid var(--line); padding: 0 .2rem 0 0;
  transform: translateX(-100%); }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .8rem; color: var(--quiet); }
.legend .mark { position: static; display: inline-block; margin: 0 .35em 0 0; }
details { margin: .35rem 0; }
summary { cursor: pointer; padding: .2rem 0; color: var(--quiet); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .8rem; }
th, td { text-align: left; vertical-align: top; padding: .2rem .6rem .2rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: normal; }
th { font-weight: 600; color: var(--quiet); }
td.text { min-width: 5rem; overflow-wrap: anywhere; }
td.number { white-space: nowrap; font-variant-numeric: tabular-nums; }
footer { border-top: 1px solid var(--line); padding-top: .6rem; font-size: .8rem;
  color: var(--quiet); }
@media print { .filter, #only-failing { display: none; } }
)css";

}  // namespace sabot::drill::report
