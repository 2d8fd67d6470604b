// Starts Swagger UI on the schema that the page names.
"use strict";

const docs = document.getElementById("docs");

/** A signed-in reader may try the API from here: the session's posts carry the CSRF token. */
function withCsrfToken(request) {
  const cookie = document.cookie.split("; ").find((pair) => pair.startsWith("csrftoken="));
  if (cookie && new URL(request.url, location.href).origin === location.origin) {
    request.headers["X-CSRFToken"] = cookie.slice("csrftoken=".length);
  }
  return request;
}

SwaggerUIBundle({
  url: docs.dataset.schema,
  domNode: docs,
  deepLinking: true,
  persistAuthorization: false,
  requestInterceptor: withCsrfToken,
});
