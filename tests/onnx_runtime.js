// Runs models in ONNX Runtime: onnx_test.py. Each line of stdin is
// {"model", "x", "y", "dims"}: inputs are read from and outputs written to files of floats.
// `node onnx_runtime.js FOLDER`, which has node_modules/onnxruntime-node.
const fs = require("fs");
const path = require("path");
const ort = require(
    path.resolve(process.argv[2], "node_modules", "onnxruntime-node"));

async function run(job) {
  const session = await ort.InferenceSession.create(
      job.model, {intraOpNumThreads: 1, logSeverityLevel: 3});
  const bytes = fs.readFileSync(job.x);
  const x = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  const given = {};
  let at = 0;
  session.inputNames.forEach((name, i) => {
    const end = at + job.dims[i].reduce((a, b) => a * b);
    given[name] = new ort.Tensor("float32", x.slice(at, end), job.dims[i]);
    at = end;
  });
  const out = await session.run(given);
  fs.writeFileSync(job.y, Buffer.concat(session.outputNames.map((name) => {
    const y = out[name].data;
    return Buffer.from(y.buffer, y.byteOffset, y.byteLength);
  })));
  await session.release();
}

async function main() {
  for (const line of fs.readFileSync(0, "utf8").split("\n")) {
    if (line === "") continue;
    const job = JSON.parse(line);
    try {
      await run(job);
    } catch (error) {
      fs.writeFileSync(job.y + ".error", String(error));
    }
  }
}
main();
