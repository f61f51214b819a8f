package classify

import (
	"cmp"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const hidden = "(not shown)"

// What looks like a secret, whoever wrote it.
var (
	secretPattern = regexp.MustCompile(strings.Join([]string{
		`(?s:-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$))`,
		`\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)?`,                                // JSON web tokens
		`(?i:\b(?:bearer|basic|digest|negotiate)\s+)[\w.~+/=-]{6,}`,       // credentials of an Authorization header
		`\b(?:sk|pk|rk|ghp|gho|ghs|xox[abprs]|AKIA|ASIA)[-_]?\w[\w-]{9,}`, // prefixes that issuers gave their keys
	}, "|"))
	// "password": "…", api_key=…, Authorization: …
	namedPattern = regexp.MustCompile(`(?i)(["']?[\w-]*(?:` + secretWords + `)[\w-]*["']?\s*[:=]\s*)("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|[^\s,;&<>{}"']+)`)
	userPattern  = regexp.MustCompile(`(://)[^\s/@"'<>]+@`) // user and password of a URL
	secretName   = regexp.MustCompile(`(?i)` + secretWords + `|cookie|sig$`)
)

const secretWords = `passw|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization|credential|signature|session[_-]?id`

// redactor takes secrets out of texts about one request.
type redactor struct {
	secrets []string // that the request carried, the longest first
	blind   bool     // there are too many of them: nothing is shown
}

const (
	minSecret  = 6   // bytes; a shorter value is taken for a word
	maxSecrets = 200 // of one request
	maxPath    = 500 // bytes of a URL's path that are shown
)

func newRedactor(request *http.Request) redactor {
	var r redactor
	if request == nil {
		return r
	}
	for name, values := range request.Header {
		if !secretName.MatchString(name) && !strings.HasSuffix(strings.ToLower(name), "-auth") {
			continue
		}
		for _, value := range values {
			r.add(value)
			for _, part := range strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(" ;,", c) }) {
				_, inner, _ := strings.Cut(part, "=") // a cookie's value, a parameter's
				r.add(part, strings.Trim(inner, `"`))
			}
		}
	}
	if user, password, ok := request.BasicAuth(); ok {
		r.add(user, password)
	}
	if request.URL != nil {
		r.addURL(request.URL)
	}
	slices.SortFunc(r.secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return r
}

func (r *redactor) addURL(u *url.URL) {
	if u.User != nil {
		password, _ := u.User.Password()
		r.add(password, u.User.String())
	}
	r.add(u.RawQuery)
	for name, values := range u.Query() {
		if secretName.MatchString(name) || strings.EqualFold(name, "key") || strings.EqualFold(name, "code") {
			r.add(values...)
		}
	}
}

func (r *redactor) add(secrets ...string) {
	for _, secret := range secrets {
		if len(secret) < minSecret || len(secret) > maxLookedAt {
			continue
		}
		if r.blind = len(r.secrets) >= maxSecrets; r.blind {
			return
		}
		r.secrets = append(r.secrets, secret)
	}
}

func (r redactor) text(text string) string {
	if r.blind {
		return hidden
	}
	for _, secret := range r.secrets {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	text = secretPattern.ReplaceAllString(text, hidden)
	text = namedPattern.ReplaceAllString(text, "${1}"+hidden)
	return userPattern.ReplaceAllString(text, "${1}")
}

// url shows scheme, host and path. A part of the path that is long and mixes letters and digits is a token, as the
// webhooks of chat services have it, unless it is a UUID.
func (r redactor) url(u *url.URL) string {
	if u.Host == "" {
		return u.Scheme + ":"
	}
	path := u.EscapedPath()
	if len(path) > maxPath {
		path = "/" + hidden
	}
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if looksRandom(part) {
			parts[i] = hidden
		}
	}
	return oneLine(r.text(u.Scheme + "://" + u.Host + strings.Join(parts, "/")))
}

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

func looksRandom(part string) bool {
	if len(part) < 20 || uuid.MatchString(part) {
		return false
	}
	digits := strings.ContainsAny(part, "0123456789")
	return digits && strings.ContainsFunc(part, unicode.IsLetter)
}

// excerpt makes one line of the beginning of a body.
func (r redactor) excerpt(header http.Header, body []byte) string {
	if len(body) == 0 {
		return ""
	}
	if encoding := header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return "(a compressed body)"
	}
	text := strings.ToValidUTF8(string(body), "\uFFFD")
	if len(body) >= maxLookedAt { // it goes on: half a secret at its end would not be recognised
		if end := strings.LastIndexFunc(text, unicode.IsSpace); end > 0 {
			text = text[:end]
		}
	}
	return cut(oneLine(r.text(text)), maxExcerpt)
}

// oneLine makes runs of white space and control characters one space.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(c rune) bool {
		return unicode.IsSpace(c) || unicode.IsControl(c) || unicode.Is(unicode.Cf, c)
	}), " ")
}

// cut keeps at most limit characters, the mark of the cut included.
func cut(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}
