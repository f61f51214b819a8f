package api_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pawljobs/pawl/api"
)

// An end that is stated as a time from now is answered as the time that the store has made of it.
func TestEndsFromTheStoresNow(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for path, body := range map[string]string{
		"/queues/3-bulk/pause":  `{"paused":true,"for_ms":3600000,"reason":"wait"}`,
		"/kinds/mail.v1/switch": `{"on":false,"for_ms":3600000,"reason":"wait"}`,
	} {
		answer := w.ask(api.RoleAdmin, "PUT", "/api/v1"+path, body)
		var set struct{ Until time.Time }
		if err := json.Unmarshal(answer.body, &set); err != nil || answer.StatusCode != 200 {
			t.Fatalf("%s: %s, error %v: %s", path, answer.Status, err, answer.body)
		}
		if left := time.Until(set.Until); left < 50*time.Minute || left > 70*time.Minute {
			t.Errorf("%s: it ends at %s", path, set.Until)
		}
	}
	answer := w.ask(api.RoleAdmin, "PUT", "/api/v1/queues/3-bulk/pause", `{"paused":true,"for_ms":1000,"until":"2100-01-01T00:00:00Z"}`)
	if answer.StatusCode != 400 {
		t.Errorf("two ends: %s: %s", answer.Status, answer.body)
	}
}
