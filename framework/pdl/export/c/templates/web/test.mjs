// An example and a test: the model on a sample, against what the runtime answered. node test.mjs
import { about, arrayOf, load } from "./model.js";

const test = {{TEST}};
const unpacked = (port, text) => new (arrayOf(port))(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);

const model = await load();
const given = Object.fromEntries(about.inputs.map((port) => [port.name, unpacked(port, test.inputs[port.name])]));
const found = model.run(given);
let worst = 0, most = 1;
for (const port of about.outputs) {
  const wanted = unpacked(port, test.outputs[port.name]);
  wanted.forEach((value, i) => {
    const apart = Math.abs(Number(found[port.name][i]) - Number(value));
    if (!(apart <= worst)) worst = apart;
    most = Math.max(most, Math.abs(Number(value)));
  });
}
console.log(`{{NAME}}: largest difference ${(worst / most).toExponential(2)}`);
if (!(worst / most <= test.tolerance)) process.exit(1);
