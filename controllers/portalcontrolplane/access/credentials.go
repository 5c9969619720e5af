// SPDX-License-Identifier: Apache-2.0

package access

import (
	"time"

	"github.com/golang-jwt/jwt/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
)

const (
	// renewShare is the part of a credential's remaining lifetime, counted from the last fetch, after which the kubeconfig is
	// fetched again. Two thirds leave time in case the portal cannot be reached for a while. If the portal returns the same
	// credential, the next fetch comes after two thirds of the remaining time, so a portal that renews late is asked only a few
	// times.
	renewShare = 2.0 / 3
	// renewPause is the shortest time between two such fetches, even for credentials with a short lifetime.
	renewPause = 30 * time.Second
	// warnBefore is how long before its end a client certificate is reported. Portals issue certificates for a year, and a new one needs the
	// portal's support, which needs time.
	warnBefore = 30 * 24 * time.Hour
)

// endsSoon returns when the client certificate, the first in the PEM data, ends, if that is within warnBefore and a portal that renews
// certificates would have renewed it: less than a quarter of its lifetime is left. The provider has asked for another one by then
// (renewShare). Otherwise, it returns nil.
func endsSoon(data []byte, now time.Time) *metav1.Time {
	certificates, err := certutil.ParseCertsPEM(data)
	if err != nil {
		return nil
	}
	begins, ends := certificates[0].NotBefore, certificates[0].NotAfter
	if left := ends.Sub(now); left > min(warnBefore, ends.Sub(begins)/4) {
		return nil
	}
	return ptr.To(metav1.NewTime(ends))
}

// expiry returns when the credentials in a kubeconfig expire, or zero if they do not expire or do not show it. If there are a
// certificate and a token, the earlier time counts.
func expiry(config *rest.Config) time.Time {
	first := certificateExpiry(config.CertData)
	if token := tokenExpiry(config.BearerToken); first.IsZero() || !token.IsZero() && token.Before(first) {
		first = token
	}
	return first
}

// certificateExpiry returns NotAfter of the client certificate, which is the first in the PEM data.
func certificateExpiry(data []byte) time.Time {
	certificates, err := certutil.ParseCertsPEM(data)
	if err != nil {
		return time.Time{}
	}
	return certificates[0].NotAfter
}

// tokenExpiry returns the time in the claim exp of a token, if the token is a JWT.
func tokenExpiry(token string) time.Time {
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(token, claims); err != nil {
		return time.Time{}
	}
	expires, err := claims.GetExpirationTime()
	if err != nil || expires == nil || expires.Unix() <= 0 {
		return time.Time{}
	}
	return expires.Time
}

// renewIn returns how long a kubeconfig that was fetched then may be used before it is fetched again. It returns 0 if no such
// time exists: the kubeconfig does not show when it expires, or it has expired and the connection decides what to do.
func renewIn(expires, fetched, now time.Time) (wait time.Duration, due bool) {
	if expires.IsZero() || !expires.After(now) {
		return 0, false
	}
	at := fetched.Add(max(renewPause, time.Duration(renewShare*float64(expires.Sub(fetched)))))
	return max(0, at.Sub(now)), !at.After(now)
}
