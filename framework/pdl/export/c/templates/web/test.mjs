// An example and a test: the model on a sample, against what the runtime answered. node test.mjs
import { about, arrayOf, load } from "./model.js";

const test = {{TEST}};
const unpacked = (port, text) => new (arrayOf(port))(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);

const model = await load();
const given = Object.fromEntries(about.inputs.map((port) => [port.name, unpacked(port, test.inputs[port.name])]));
const found = model.run(given);
// numbers over the larger of 1 and the largest that is expected of their output
const scaled = about.outputs.map((port) => {
  const wanted = [...unpacked(port, test.outputs[port.name])].map(Number);
  const most = wanted.reduce((a, b) => Math.max(a, Math.abs(b)), 1);
  return [[...found[port.name]].map((v) => Number(v) / most), wanted.map((v) => v / most), port];
});
const distance = (a, b) => a.reduce((worst, v, i) => (Math.abs(v - b[i]) <= worst ? worst : Math.abs(v - b[i])), 0);
let worst = 0, alone = 0;
if (test.unordered) {
  // Nearly equal scores decide the order of rows: each is compared with the nearest of its image. They also decide which of
  // two boxes stays: one row in ten may have no counterpart.
  const [images, each] = about.outputs[0].shape;
  const rows = (side, image) => Array.from({ length: each }, (_, k) => scaled.flatMap(([...sides]) => {
    const width = sides[side].length / (images * each), at = (image * each + k) * width;
    return sides[side].slice(at, at + width);
  }));
  for (let image = 0; image < images; image++) {
    const [ours, theirs] = [rows(0, image), rows(1, image)];
    for (const [some, others] of [[ours, theirs], [theirs, ours]])
      for (const row of some) {
        const nearest = others.reduce((near, other) => Math.min(near, distance(row, other)), Infinity);
        if (nearest <= test.counterpart) worst = Math.max(worst, nearest);
        else alone += 5 / (images * each);
      }
  }
} else {
  worst = Math.max(...scaled.map(([ours, theirs]) => distance(ours, theirs)));
}
console.log(`{{NAME}}: largest difference ${worst.toExponential(2)}`);
if (!(worst <= test.tolerance && alone <= 1)) process.exit(1);
