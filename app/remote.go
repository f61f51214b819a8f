package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
	"github.com/pawljobs/pawl/app/internal/config"
)

// tokenVariable has the token for the API of a server.
const tokenVariable = "PAWL_TOKEN"

// dial gets at a store through the API of a server.
func (p *program) dial(ctx context.Context, at config.Target, err error) (store, error) {
	if err != nil {
		return nil, err
	}
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	client, err := api.Dial(ctx, at.At, token, api.ClientConfig{InsecureHTTP: p.insecureHTTP})
	switch field := new(pawl.FieldError); {
	case errors.As(err, &field) && strings.Contains(field.Rule, "seen on its way"):
		return nil, withStatus(exitUsage, fmt.Errorf("%w; --insecure-http sends it all the same", err))
	case err != nil:
		return nil, err
	}
	if name := client.Connection().Name; p.connection != "" && p.connection != name {
		return nil, errors.Join(fmt.Errorf("the store behind %s is connection %q, not %q: %w", at, name, p.connection, pawl.ErrConflict), client.Close())
	}
	return client, nil
}

// server is the API of the server that was named as the store; nil where a store itself was.
func (p *program) server(ctx context.Context) (*api.Client, error) {
	at, err := p.target()
	if err != nil || at.Engine != config.Remote {
		return nil, err
	}
	s, err := p.dial(ctx, at, nil)
	if err != nil {
		return nil, err
	}
	return s.(*api.Client), nil
}

// token is what lets this program in.
func (p *program) token() (string, error) {
	if p.tokenFile == "" {
		if token := p.env(tokenVariable); token != "" {
			return token, nil
		}
		return "", withStatus(exitUsage, fmt.Errorf("the API of a server wants a token: put it into %s or into a file (--token-file)", tokenVariable))
	}
	text, err := os.ReadFile(p.tokenFile)
	if errors.Is(err, fs.ErrPermission) {
		return "", withStatus(exitDenied, fmt.Errorf("read token: %w", err))
	}
	if err != nil {
		return "", fmt.Errorf("read token: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
