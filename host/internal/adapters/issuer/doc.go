// Package issuer verifies tokens of OpenID Connect issuers.
//
// [Verifier] implements identity.Verifier. When the first token of an issuer arrives, it reads the
// keys from the URL in the discovery document of the issuer. It caches them for the time that the
// issuer permits, limited to minKeyLife and maxKeyLife. It reads them again when half of that time
// is over, or when a token names an unknown key, but at most once per refetchAfter, so that tokens
// cannot make the host flood an issuer. If an issuer does not respond, the cached keys are used
// until their time is over; after that its tokens are rejected with an error of type auth/busy.
//
// Concurrency: a Verifier is safe for concurrent use. One request at a time reads the keys of an
// issuer; others use the cached keys or wait for it.
package issuer
