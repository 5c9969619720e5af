// SPDX-License-Identifier: Apache-2.0

package conformance

// Gap is something that the specification leaves open ("not shown"), with the shapes that the client accepts.
type Gap struct {
	// Name is stable, for reports. If the client reports the shape of the gap (cloud.Config.ObserveShape), it uses this name.
	Name string
	// Where the specification is silent.
	Where string
	// Shapes that the client accepts.
	Shapes []Shape
	// Otherwise says what the client makes of any other shape, and what that means for the provider.
	Otherwise string
	// Effect of any other shape.
	Effect Effect
}

// Shape is one way to fill a gap.
type Shape struct {
	Name    string
	Example string
	// Test that holds the client to the shape, as package: test.
	Test string
}

// Effect is what an answer of another shape means for the provider.
type Effect string

// The effects.
const (
	Works       Effect = "works"          // the provider does not depend on it
	NeedsPerson Effect = "needs a person" // conditions say what to do
	Fails       Effect = "will not work"  // the provider cannot use such a portal
)

// Names of gaps that a check fills.
const (
	gapOTPToken = "verify-otp token"
	gapNetwork  = "network creation"
)

// Gaps are all places where the specification is silent and the client depends on the answer.
func Gaps() []Gap {
	return append(accessGaps(), resourceGaps()...)
}

func accessGaps() []Gap {
	return []Gap{
		{Name: gapOTPToken, Where: "Authentication endpoints: name of the field that carries the token of verify-otp", Shapes: []Shape{
			{"under a usual name", `{"token": JWT}, accessToken, access_token, jwt`, "cloud: TestSecondFactor"},
			{"under another name", `{"authToken": JWT}: the only JWT of the answer`, "cloud: TestSecondFactor"},
			{"in a nested object", `{"data": {"session": JWT}}`, "cloud: TestSecondFactor"},
		}, Otherwise: "Users with MFA cannot log in.", Effect: Fails},
		{Name: "answer of send-otp", Where: "Authentication endpoints: response body of send-otp", Shapes: []Shape{
			{"any success", "200, 202 or 204, with any body or none", "test/faulttest: TestLifeInEachShape"},
		}, Otherwise: "The login fails.", Effect: Fails},
		{Name: "refusal of a login", Where: "Errors: code and status that answer wrong credentials", Shapes: []Shape{
			{"401 of any body", "401", "test/faulttest: TestMatrix"},
			{"any code in the documented body", `400 {"error": {"code": "INVALID_CREDENTIALS"}}`, "test/faulttest: TestMatrix"},
		}, Otherwise: "The condition names baseURL instead of the password.", Effect: NeedsPerson},
		{Name: "token lifetime", Where: "Authentication 7: whether the token names its own end", Shapes: []Shape{
			{"in the token", "claims exp and iat", "cloud: TestRefresh"},
			{"not in the token", "no exp: 8 hours, as documented", "test/faulttest: TestLifeInEachShape"},
		}, Otherwise: "A 401 replaces the token.", Effect: Works},
		{Name: "pairing of codes and statuses", Where: "Errors: the pairing of each code with an HTTP status", Shapes: []Shape{
			{"a listed code with any status of an error", `500 {"error": {"code": "INSUFFICIENT_CAPACITY"}}`, "test/faulttest: TestMatrix"},
			{"an unlisted code", "its status decides", "test/faulttest: TestMatrix"},
		}, Otherwise: "A creation is held for a person after a 5xx with an unlisted code, or a refusal without the documented body.", Effect: NeedsPerson},
		{Name: "rate limit headers", Where: "Limits 1: whether other answers than 429 carry the headers", Shapes: []Shape{
			{"with every answer", "X-RateLimit-Remaining: 49", "cloud/ratelimit: TestRemainingIsFollowed"},
			{"with 429 only", "300 requests a minute, unless the Secret names the limit", "internal/fleet: TestBurst"},
		}, Otherwise: "The provider assumes the standard tier, and slows down after a 429.", Effect: Works},
		{Name: "X-RateLimit-Remaining", Where: "Limits 1: whether it counts the burst or the minute's requests", Shapes: []Shape{
			{"of the burst", "X-RateLimit-Remaining: 49 after one request", "cloud/ratelimit: TestRemainingIsFollowed"},
			{"of a longer time", "X-RateLimit-Remaining: 299 after one request", "internal/fleet: TestBurst"},
		}, Otherwise: "The provider sends at most a sixth of the limit at once, and slows down after a 429.", Effect: Works},
		{Name: "Retry-After", Where: "Limits 1: seconds are documented; HTTP also allows a date", Shapes: []Shape{
			{"seconds", "Retry-After: 5", "cloud: TestRetryAtOfARefusal"},
			{"date", "Retry-After: Sat, 01 Jan 2000 00:00:05 GMT", "test/faulttest: TestLifeInEachShape"},
		}, Otherwise: "X-RateLimit-Reset counts, or the provider's own backoff.", Effect: Works},
	}
}

func resourceGaps() []Gap {
	return []Gap{
		{Name: "list", Where: "Jobs and other endpoints: form of the list of instances; others have their key", Shapes: []Shape{
			{"under its key", `{"instances": [...]}`, "cloud: TestEndpoints"},
			{"bare", `[...]`, "cloud: TestEndpoints"},
			{"under another key", `{"items": [...]}: the only list of the answer`, "cloud: TestEndpoints"},
		}, Otherwise: "An answer without a list is an error, never an empty list.", Effect: Fails},
		{Name: "created id", Where: "Job: where the result carries the id of a created cluster or network", Shapes: []Shape{
			{"in one nested object", `{"kubernetesCluster": {"id": ...}}`, "cloud: TestCreatedID"},
			{"at the top", `{"id": ...}`, "cloud: TestCreatedID"},
			{"beside other records", `{"kubernetesCluster": {"id": ..., "name": ...}, "network": {"id": ...}}`, "cloud: TestCreatedID"},
			{"one level deeper", `{"resource": {"kubernetesCluster": {"id": ...}}}`, "cloud: TestCreatedID"},
		}, Otherwise: "A person enters the id.", Effect: NeedsPerson},
		{Name: gapNetwork, Where: "Network endpoints: status and form of the answer to POST /networks", Shapes: []Shape{
			{"at once", "200 or 201 with the record", "test/faulttest: TestLifeInEachShape"},
			{"by a job", "202 with a job", "test/faulttest: TestLifeInEachShape"},
		}, Otherwise: "A person enters network.id.", Effect: NeedsPerson},
		{Name: "job error", Where: "Job: form of error", Shapes: []Shape{
			{"object", `{"code": ..., "message": ...}`, "cloud: TestEndpoints"},
			{"whole error body", `{"error": {"code": ...}}`, "cloud: TestEndpoints"},
			{"string", `"CODE: message"`, "cloud: TestEndpoints"},
		}, Otherwise: "The cause of the failure is unknown.", Effect: Works},
		{Name: "lookup of clusters by name", Where: "Limits 4: clients look resources up by name; no endpoint lists clusters", Shapes: []Shape{
			{"answered", `GET /kubernetes-clusters?name= answers with a list`, "cloud: TestLookup"},
			{"not answered", "any other answer, 401 and 200 with a page included", "test/faulttest: TestMatrix"},
		}, Otherwise: "After a lost answer, a person looks for the cluster.", Effect: Works},
		{Name: "deletion of a volume", Where: "Jobs and other endpoints: whether DELETE /volumes/{volume_id} is synchronous", Shapes: []Shape{
			{"at once", "200 or 204", "test/faulttest: TestLifeInEachShape"},
			{"by a job", "202 with a job", "test/faulttest: TestLifeInEachShape"},
		}, Otherwise: "Only portalctl deletes volumes.", Effect: Works},
		{Name: "version text", Where: "Kubernetes version: whether semanticVersion has a leading v, or build metadata", Shapes: []Shape{
			{"with v", "v1.36.3", "test/faulttest: TestLifeInEachShape"},
			{"without v", "1.36.3+portal.1", "test/faulttest: TestLifeInEachShape"},
		}, Otherwise: "A version that is not semantic is not found.", Effect: Fails},
		{Name: "version state", Where: "Kubernetes version: values of state", Shapes: []Shape{
			{"any word", "Enabled, DISABLED, deprecated: the portal decides what it accepts", "test/world: TestLives"},
		}, Otherwise: "If the portal refuses the version, the condition has its words.", Effect: NeedsPerson},
		{Name: "further fields", Where: "Other records: fields beyond the identifiers", Shapes: []Shape{
			{"any", `{"id": ..., "links": {...}}`, "test/world: TestLives"},
		}, Otherwise: "", Effect: Works},
	}
}
