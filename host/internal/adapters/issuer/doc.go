// Package issuer checks tokens of OpenID Connect issuers.
//
// [Verifier] implements identity.Verifier. It reads the keys of an issuer from the
// address that its discovery document names, when the first token of the issuer
// arrives, and keeps them for the time that the issuer permits, between minKeyLife and
// maxKeyLife. It reads them again when half of that time is over, and when a token
// names a key that is not known, but at most once per refetchAfter: tokens cannot make
// the host flood an issuer. While an issuer does not answer, the known keys serve until
// their time is over; then its tokens are refused with an error of type auth/busy.
//
// Concurrency: a Verifier is safe for concurrent use. One request reads the keys of an
// issuer at a time; the others use the known keys or wait for it.
package issuer
