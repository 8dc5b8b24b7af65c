// A certificate of this process, encoded by hand because Node can sign but not
// create one: DER is a tag, a length and the content, nested.

import { generateKeyPairSync, randomBytes, sign } from "node:crypto";

const der = (tag, ...parts) => {
  const body = Buffer.concat(parts);
  const size = [];
  for (let n = body.length; n > 0; n >>= 8) size.unshift(n & 255);
  const length = body.length < 128 ? [body.length] : [128 + size.length, ...size];
  return Buffer.concat([Buffer.from([tag, ...length]), body]);
};
const sequence = (...parts) => der(0x30, ...parts);
const oid = (hex) => der(0x06, Buffer.from(hex, "hex"));
const yes = der(0x01, Buffer.from([255]));
const time = (date) => der(0x18, Buffer.from(date.toISOString().replace(/[-:T]|\.\d+/g, "")));
const extension = (id, critical, value) => sequence(oid(id), ...(critical ? [yes] : []), der(0x04, value));

const ecdsaWithSHA256 = sequence(oid("2a8648ce3d040302"));
const localhost = sequence(der(0x31, sequence(oid("550403"), der(0x0c, Buffer.from("localhost")))));

/** Returns { key, certificate } as PEM and the certificate's DER bytes. */
export function newCertificate(now = new Date()) {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const serial = randomBytes(16);
  serial[0] = (serial[0] & 0x7f) | 0x40; // positive, and no leading zero
  const tbs = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))), // version 3
    der(0x02, serial),
    ecdsaWithSHA256,
    localhost, // issuer
    sequence(time(new Date(now - 60_000)), time(new Date(+now + 10 * 365 * 86_400_000))),
    localhost, // subject
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(
      extension("551d11", false, sequence(der(0x82, Buffer.from("localhost")))),
      extension("551d13", true, sequence(yes)), // it is its own authority
      extension("551d0f", true, der(0x03, Buffer.from([2, 0b10101100]))), // sign, encipher and agree on keys, sign certificates
      extension("551d25", false, sequence(oid("2b06010505070302"), oid("2b06010505070301"))), // client and server
    )),
  );
  const signature = sign("sha256", tbs, { key: privateKey, dsaEncoding: "der" });
  const raw = sequence(tbs, ecdsaWithSHA256, der(0x03, Buffer.from([0]), signature));
  const lines = raw.toString("base64").match(/.{1,64}/g).join("\n");
  return {
    raw,
    certificate: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }),
  };
}
