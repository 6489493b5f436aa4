package gateway

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"tandem/internal/atomicfile"
	"tandem/internal/people"
	"tandem/jobs"
)

// Token is an entry of the file of tokens: who may ask, and for what. Zero limits are none, but for Concurrent.
type Token struct {
	Name       string      `json:"name"`                          // in lists, logs and usage
	SHA256     string      `json:"sha256"`                        // of the token, in hex; the token itself is kept by nobody but its owner
	User       string      `json:"user"`                          // whose jobs these are
	Models     []string    `json:"models,omitempty"`              // that may be asked; all if there are none
	Class      jobs.Class  `json:"class,omitempty"`               // batch: no job goes before those of others
	PerMinute  int         `json:"requests_per_minute,omitempty"` // on average, and at once
	PerDay     int64       `json:"tokens_per_day,omitempty"`      // of prompts and answers together, by UTC
	Concurrent int         `json:"concurrent,omitempty"`          // requests that are answered at the same time; default 100
	Role       people.Role `json:"role,omitempty"`                // what may be seen and done in the console; nothing if it is empty
	Created    time.Time   `json:"created"`
}

const defaultConcurrent = 100

// tokenPrefix begins each token, so that whoever finds one knows what it is.
const tokenPrefix = "tandem-"

var tokenName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// check refuses an entry that cannot be meant.
func (t *Token) check() error {
	if !tokenName.MatchString(t.Name) {
		return jobs.Errorf(jobs.CodeInvalid, "name is %.80q; want up to 63 lower-case letters, digits, - and _", t.Name)
	}
	if sum, err := hex.DecodeString(t.SHA256); err != nil || len(sum) != sha256.Size {
		return jobs.Errorf(jobs.CodeInvalid, "token %s: sha256 is %.80q; want 64 hexadecimal digits", t.Name, t.SHA256)
	}
	if err := jobs.CheckUser(t.User); err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "token %s: %v", t.Name, err)
	}
	if t.Class != "" && !slices.Contains(jobs.Classes[:], t.Class) {
		return jobs.Errorf(jobs.CodeInvalid, "token %s: class is %.40q; want interactive or batch", t.Name, t.Class)
	}
	if t.Role != "" && !slices.Contains(people.Roles, t.Role) {
		return jobs.Errorf(jobs.CodeInvalid, "token %s: role is %.40q; want viewer, grader, operator, or none", t.Name, t.Role)
	}
	if t.PerMinute < 0 || t.PerDay < 0 || t.Concurrent < 0 {
		return jobs.Errorf(jobs.CodeInvalid, "token %s: a limit is below 0; leave it out for none", t.Name)
	}
	for i, m := range t.Models {
		name, err := jobs.CanonicalModel(m)
		if err != nil {
			return jobs.Errorf(jobs.CodeInvalid, "token %s: models: %v", t.Name, err)
		}
		t.Models[i] = name
	}
	return nil
}

// tokenFile is the form of the file.
type tokenFile struct {
	Tokens []Token `json:"tokens"`
}

// ReadTokens reads the file of tokens.
func ReadTokens(file string) ([]Token, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "tokens: %w; gateway token add makes the file", err)
	}
	if err := jobs.CheckJSON(data); err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "tokens: %s: %v", file, err)
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	var f tokenFile
	if err := d.Decode(&f); err != nil {
		return nil, jobs.Errorf(jobs.CodeInvalid, "tokens: %s: %v", file, err)
	}
	names := map[string]bool{}
	for i := range f.Tokens {
		t := &f.Tokens[i]
		if err := t.check(); err != nil {
			return nil, jobs.Errorf(jobs.CodeInvalid, "tokens: %s: entry %d: %v", file, i+1, err)
		}
		if names[t.Name] {
			return nil, jobs.Errorf(jobs.CodeInvalid, "tokens: %s: entry %d: name %s is there twice", file, i+1, t.Name)
		}
		names[t.Name] = true
	}
	return f.Tokens, nil
}

// AddToken adds an entry to the file, which it makes if need be, and returns the token, which nobody can read from the file.
func AddToken(file string, t Token) (secret string, err error) {
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	secret = tokenPrefix + hex.EncodeToString(random)
	t.SHA256, t.Created = hashToken(secret), time.Now().UTC().Truncate(time.Second)
	if err := t.check(); err != nil {
		return "", err
	}
	return secret, changeTokens(file, func(list []Token) ([]Token, error) {
		if slices.ContainsFunc(list, func(o Token) bool { return o.Name == t.Name }) {
			return nil, jobs.Errorf(jobs.CodeInvalid, "token %s is there already; revoke it first, or choose another name", t.Name)
		}
		return append(list, t), nil
	})
}

// RevokeToken removes an entry. Gateways that run refuse the token within a second.
func RevokeToken(file, name string) error {
	return changeTokens(file, func(list []Token) ([]Token, error) {
		i := slices.IndexFunc(list, func(t Token) bool { return t.Name == name })
		if i < 0 {
			return nil, jobs.Errorf(jobs.CodeInvalid, "there is no token %.80q in %s; gateway token list shows those that there are", name, file)
		}
		return slices.Delete(list, i, i+1), nil
	})
}

// changeTokens rewrites the file, one program at a time.
func changeTokens(file string, edit func([]Token) ([]Token, error)) error {
	folder, err := os.Open(filepath.Dir(file))
	if err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "tokens: %w", err)
	}
	defer folder.Close()
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX); err != nil {
		return jobs.Errorf(jobs.CodeInvalid, "tokens: lock %s: %w", filepath.Dir(file), err)
	}
	list, err := ReadTokens(file)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		list, err = edit(list)
	}
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(tokenFile{list}, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Replace(file, append(data, '\n'), 0o600)
}

func hashToken(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// reloadEvery is how long a change of the file may go unnoticed.
const reloadEvery = 500 * time.Millisecond

// tokens are those who may ask, as the file says. It is read again when it has changed; one that cannot be read changes nothing.
type tokens struct {
	file string
	log  *slog.Logger

	mu     sync.Mutex
	looked time.Time
	seen   os.FileInfo
	list   []*holder
}

// holder is whoever has a token, and what is being done for it.
type holder struct {
	Token
	rate *rate.Limiter
	open int // requests that are being answered
}

func openTokens(file string, log *slog.Logger) (*tokens, error) {
	t := &tokens{file: file, log: log}
	_, err := t.reload()
	return t, err
}

// reload reads the file, if it is another one than was read.
func (t *tokens) reload() (changed bool, err error) {
	info, err := os.Stat(t.file)
	if err != nil {
		return false, jobs.Errorf(jobs.CodeInvalid, "tokens: %w; gateway token add makes the file", err)
	}
	if t.seen != nil && os.SameFile(t.seen, info) && t.seen.ModTime().Equal(info.ModTime()) && t.seen.Size() == info.Size() {
		return false, nil
	}
	t.seen = info // whatever is in it: what is wrong with it is said once
	list, err := ReadTokens(t.file)
	if err != nil {
		return false, err
	}
	var now []*holder
	for _, entry := range list {
		h := &holder{Token: entry}
		if i := slices.IndexFunc(t.list, func(o *holder) bool { return o.Name == entry.Name && o.SHA256 == entry.SHA256 }); i >= 0 {
			if h = t.list[i]; h.PerMinute != entry.PerMinute {
				h.rate = nil
			}
			h.Token = entry
		}
		if h.rate == nil && entry.PerMinute > 0 {
			h.rate = rate.NewLimiter(rate.Limit(float64(entry.PerMinute)/60), entry.PerMinute)
		}
		now = append(now, h)
	}
	t.list = now
	return true, nil
}

// current reads the file again if it has changed. The lock must be held.
func (t *tokens) current() {
	if now := time.Now(); now.Sub(t.looked) > reloadEvery {
		t.looked = now
		switch changed, err := t.reload(); {
		case err != nil:
			t.log.Error("the file of tokens cannot be read; those that were read before go on", "error", err)
		case changed:
			t.log.Info("the file of tokens was read", "tokens", len(t.list))
		}
	}
}

// named is the token of a name.
func (t *tokens) named(name string) (Token, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current()
	i := slices.IndexFunc(t.list, func(h *holder) bool { return h.Name == name })
	if i < 0 {
		return Token{}, false
	}
	return t.list[i].Token, true
}

// enter lets in who has a token, if there is room for another request. Leave must be called at its end.
func (t *tokens) enter(secret string) (token *Token, leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current()
	hash := []byte(hashToken(secret))
	var h *holder
	for _, one := range t.list { // all of them, so that the time tells nothing
		if subtle.ConstantTimeCompare(hash, []byte(strings.ToLower(one.SHA256))) == 1 {
			h = one
		}
	}
	if h == nil {
		return nil, nil, refuse(http.StatusUnauthorized, "Authorization", "this gateway asks for a token that it knows, as Authorization: Bearer %s…; who runs it makes one with gateway token add", tokenPrefix)
	}
	return t.admit(h)
}

// enterNamed is enter of who has signed in with the token of a name.
func (t *tokens) enterNamed(name string) (token *Token, leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current()
	i := slices.IndexFunc(t.list, func(h *holder) bool { return h.Name == name })
	if i < 0 {
		return nil, nil, refuse(http.StatusUnauthorized, "Authorization", "token %.80s was revoked", name)
	}
	return t.admit(t.list[i])
}

// admit lets in the holder of a token, if there is room for another request. The lock must be held.
func (t *tokens) admit(h *holder) (token *Token, leave func(), err error) {
	if limit := cmp.Or(h.Concurrent, defaultConcurrent); h.open >= limit {
		return nil, nil, tooMany("concurrent", time.Second, "token %s has %d requests under way, and may have no more; wait for one, or send a batch", h.Name, limit)
	}
	if h.rate != nil {
		now := time.Now()
		if r := h.rate.ReserveN(now, 1); r.DelayFrom(now) > 0 {
			wait := r.DelayFrom(now)
			r.CancelAt(now)
			return nil, nil, tooMany("requests_per_minute", wait, "token %s may ask %d times a minute; wait, or send a batch", h.Name, h.PerMinute)
		}
	}
	h.open++
	entry := h.Token // as it is now
	return &entry, func() {
		t.mu.Lock()
		h.open--
		t.mu.Unlock()
	}, nil
}

func tooMany(limit string, retryAfter time.Duration, format string, args ...any) error {
	return &refusal{status: http.StatusTooManyRequests, text: fmt.Sprintf(format, args...), after: retryAfter, limit: limit}
}
