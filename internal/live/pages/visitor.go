package pages

import (
	"net/http"

	"github.com/slotwise/slotwise/internal/console/source"
	"github.com/slotwise/slotwise/internal/live/secure"
)

// Visitor returns who has sent a request that a secure.Guard has let pass.
func Visitor(r *http.Request) source.Visitor {
	who := secure.From(r.Context())
	return source.Visitor{Known: who.Role != "", Name: who.String(), Account: who.Account(), SignedIn: secure.HasSession(r)}
}
