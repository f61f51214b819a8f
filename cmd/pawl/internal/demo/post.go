package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/classify"
)

// profileClient posts profiles to the downstream.
type profileClient struct {
	url    string
	client *http.Client
}

// post returns nil when the downstream has taken the profile. The key is the job's id, so that the downstream can
// recognise a repeat.
func (c profileClient) post(ctx context.Context, p profile, key string) error {
	body, err := json.Marshal(p)
	if err != nil {
		return pawl.Permanent(fmt.Errorf("encode profile: %w", err))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+profilesPath, bytes.NewReader(body))
	if err != nil {
		return pawl.Permanent(fmt.Errorf("post profile: %w", err))
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(keyHeader, key)
	response, err := c.client.Do(request)
	if err != nil {
		return fmt.Errorf("post profile: %w", err) // the network's fault: says nothing, so it is tried again
	}
	if err := classify.Response(response); err != nil {
		return fmt.Errorf("post profile: %w", err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body) // it is taken; what is read lets the connection be used again
	return nil
}
