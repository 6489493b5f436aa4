package protocol

import (
	"net/url"
	"regexp"
	"strings"
)

// hidden stands for the secret of a URL.
const hidden = "xxxxx"

var (
	hasScheme = regexp.MustCompile(`^\s*[a-zA-Z][a-zA-Z0-9+.-]*://`)
	mayBeURL  = regexp.MustCompile(`[a-zA-Z][a-zA-Z0-9+.-]*://(.*@\S*|\S*[?#]\S*)|[^\s"]*:\S*@\S*`)
)

// RedactURL returns a URL, or several separated by commas, without the secrets in it, for output, logs and records. A
// password becomes xxxxx, and so do a user name without one, which NATS takes for a token, and a query. Of what is no URL
// only the scheme and what follows the last @ are left. A comma without a scheme behind it may be part of a password.
func RedactURL(list string) string {
	var urls []string
	for part := range strings.SplitSeq(list, ",") {
		if n := len(urls); n > 0 && !hasScheme.MatchString(part) {
			urls[n-1] += "," + part
		} else {
			urls = append(urls, part)
		}
	}
	for i, s := range urls {
		urls[i] = redactOne(strings.TrimSpace(s))
	}
	return strings.Join(urls, ",")
}

func redactOne(s string) string {
	u, err := url.Parse(s)
	scheme := hasScheme.FindString(s)
	rest := s[len(scheme):]
	at := strings.LastIndexByte(rest, '@')
	switch user, _, password := strings.Cut(rest[:max(at, 0)], ":"); {
	case at < 0 && err != nil && scheme != "": // perhaps the @ is what is missing
		return scheme + hidden
	case at < 0:
	case err == nil && u.User != nil && password && !strings.Contains(user, ","):
		rest = user + ":" + hidden + rest[at:]
	default:
		rest = hidden + rest[at:]
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i+1] + hidden
	}
	return scheme + rest
}

// RedactText returns a message of somebody else, such as a parser, with the URLs in it as [RedactURL] has them.
func RedactText(s string) string { return mayBeURL.ReplaceAllStringFunc(s, RedactURL) }
