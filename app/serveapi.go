package app

import (
	"encoding/hex"
	"maps"
	"net/http"
	"slices"

	"github.com/pawljobs/pawl/api"
	"github.com/pawljobs/pawl/app/internal/config"
)

// show serves what a host shows, and the API for those who have a token.
func (g *hosting) show(endpoints *endpoints, s ownStore, carried *relays, host http.Handler) error {
	tokens := tokensOf(g.started)
	if len(tokens) == 0 {
		g.log.Info("there is no API: no token is configured (api.tokens)")
		endpoints.show(host)
		return nil
	}
	version, _ := built()
	handler, err := api.New(s, api.Config{
		Tokens: tokens, HideFromViewers: g.started.API.HideFromViewers, Outboxes: carried.outboxes(), Version: version, Logger: g.log,
	})
	if err != nil {
		return err
	}
	g.api = handler
	endpoints.show(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if api.Serves(r) { // the mux would answer an odd path with a redirect
			handler.ServeHTTP(w, r)
			return
		}
		host.ServeHTTP(w, r)
	}))
	g.log.Info("serving the API", "tokens", len(tokens))
	return nil
}

// tokensOf are those of the settings, by name. That they are well formed was checked.
func tokensOf(settings *config.Settings) []api.Token {
	var tokens []api.Token
	for _, name := range slices.Sorted(maps.Keys(settings.API.Tokens)) {
		given := settings.API.Tokens[name]
		token := api.Token{Name: name, Role: api.Role(given.Role)}
		hash, _ := hex.DecodeString(given.Hash)
		copy(token.Hash[:], hash)
		tokens = append(tokens, token)
	}
	return tokens
}
