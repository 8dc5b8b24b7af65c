package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/fermenthq/ferment/host/internal/adapters/issuer"
	"github.com/fermenthq/ferment/host/internal/domain/policy"
	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/orchestration/journal"
	"github.com/fermenthq/ferment/host/internal/runtime/setup"
	"github.com/fermenthq/ferment/sdk/contract"
)

// openIdentity opens the identity service with a store. The error is that of a clash with the
// settings, or of the store.
func (h *Host) openIdentity(ctx context.Context, store identity.Store, set *identity.Settings) (err error) {
	if h.identity, err = identity.Open(ctx, store); err != nil {
		return err
	}
	if clash := h.identity.Clash(set); clash != nil {
		return clash
	}
	h.issuers = issuer.New(time.Now)
	h.identity.Trust(h.issuers)
	return nil
}

// reachIssuers reads the keys of the issuers that a reload adds or changes, because a wrong block
// would reject all callers of its issuer (HCL-039). The error is auth/busy.
func (h *Host) reachIssuers(ctx context.Context, old, next *identity.Settings) *contract.Error {
	for i := range next.Issuers {
		by := &next.Issuers[i]
		known := slices.ContainsFunc(old.Issuers, func(o identity.Issuer) bool {
			return o.URL == by.URL && o.Authorities == by.Authorities
		})
		if known {
			continue
		}
		if err := h.issuers.Reach(ctx, by); err != nil {
			return contract.Errorf("auth/busy", "nothing was changed: the keys of the issuer %s (%s) cannot be read: %w", by.Name, by.URL, err).
				WithHint("correct the block oidc \"" + by.Name + "\", or reload when the issuer answers")
		}
	}
	return nil
}

// standing returns the function act.Config.Standing of a configuration. The host acts for the owner
// of a session with the role of users alone, whatever the roles of the owner are.
func (h *Host) standing(loaded *setup.Loaded) func(*journal.RunAccepted) (*policy.Caller, *contract.Error) {
	return func(accepted *journal.RunAccepted) (*policy.Caller, *contract.Error) {
		p, known, err := h.identity.Standing(context.Background(), loaded.Generation.Identity, accepted.Principal)
		if err != nil || !known || accepted.PrincipalType == hostPrincipal {
			return nil, err
		}
		now := p.Caller()
		return &now, nil
	}
}

// Identity implements httpapi.Backend.
func (d *Daemon) Identity() *identity.Service {
	if h := d.host.Load(); h != nil {
		return h.identity
	}
	return nil
}
