// Reads an OpenAPI document from standard input. Prints OK and exits with 0,
// or prints what is wrong with it and exits with 1.
import { readFileSync } from "node:fs";
import { Validator } from "@seriousme/openapi-schema-validator";

const validator = new Validator();
const result = await validator.validate(JSON.parse(readFileSync(0, "utf8")));
if (!result.valid) {
  console.log(JSON.stringify(result.errors, null, 1));
  process.exit(1);
}
try {
  validator.resolveRefs();
} catch (e) {
  console.log(e.message);
  process.exit(1);
}
console.log(`OK ${validator.version}`);
